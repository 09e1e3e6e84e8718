package airgap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// Limits for an air-gap file. They protect the importer from a manipulated file.
const (
	maxEntries     = 100_000
	maxIndexBytes  = 16 << 20
	maxBlobBytes   = 8<<30 - 1 // largest size in a plain tar header
	maxVolumes     = 999
	maxWindowBytes = 8 << 20
	maxRatio       = 100
	ratioFreeBytes = 64 << 20
	largeRatio     = 4
	largeFreeBytes = 4 << 30
	// maxPaddingBytes limits the zeros at the end of a tar file. The program GNU tar adds up to 10 KiB of zeros.
	maxPaddingBytes = 1 << 20
)

var volumeName = regexp.MustCompile(`^(.*)\.([0-9]{3})$`)

// Files groups the paths of air-gap files. One divided file's volumes, such as FILE.001 and FILE.002, form one entry.
// Every other path is a separate entry.
func Files(paths []string) []Volumes {
	var files []Volumes
	at := map[string]int{}
	for _, path := range paths {
		m := volumeName.FindStringSubmatch(path)
		if m == nil {
			files = append(files, Volumes{Paths: []string{path}})
			continue
		}
		i, known := at[m[1]]
		if !known {
			i = len(files)
			at[m[1]], files = i, append(files, Volumes{})
		}
		files[i].Paths = append(files[i].Paths, path)
	}
	for base, i := range at {
		slices.Sort(files[i].Paths)
		for n, path := range files[i].Paths {
			if want := fmt.Sprintf("%s.%03d", base, n+1); path != want {
				files[i].Incomplete = refusal.New(refusal.Incomplete,
					"volume %s is missing: the next given volume is %s", want, path)
				break
			}
		}
	}
	return files
}

// Volumes contains the paths to all volumes of one air-gap file.
type Volumes struct {
	Paths []string
	// Incomplete is an error with the name of the first missing volume, or nil if no volume is missing.
	Incomplete *refusal.Error
}

// Open opens an air-gap file and compares every blob with its digest. The paths are the file's volumes in order. A
// *refusal.Error means that the file is invalid. After Open has read an entry, it passes the entry's size to advance.
func Open(paths []string, advance func(int64)) (*File, error) {
	file, err := openVolumes(paths)
	if err != nil {
		return nil, err
	}
	if err := file.unpack(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := file.scan(advance); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func openVolumes(paths []string) (*File, error) {
	parts := &volumeReader{}
	for _, path := range paths {
		file, size, err := openRegular(path, os.O_RDONLY)
		if err != nil {
			return nil, errors.Join(err, parts.Close())
		}
		parts.files = append(parts.files, file)
		parts.size += size
		parts.ends = append(parts.ends, parts.size)
	}
	return &File{at: parts, size: parts.size, closer: parts}, nil
}

// openRegular opens a regular file and returns its size. It returns an error for other kinds of files, such as pipes.
func openRegular(path string, flags int) (*os.File, int64, error) {
	file, err := os.OpenFile(path, flags|syscall.O_NONBLOCK, 0o644) // O_NONBLOCK: opening a pipe must not block
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

type volumeReader struct {
	files []*os.File
	ends  []int64
	size  int64
}

func (p *volumeReader) ReadAt(data []byte, offset int64) (int, error) {
	read := 0
	for i, file := range p.files {
		begin := int64(0)
		if i > 0 {
			begin = p.ends[i-1]
		}
		if offset >= p.ends[i] || len(data) == 0 {
			continue
		}
		part := data[:min(int64(len(data)), p.ends[i]-offset)]
		n, err := file.ReadAt(part, offset-begin)
		read, offset, data = read+n, offset+int64(n), data[n:]
		if n < len(part) {
			return read, errors.Join(err, io.ErrUnexpectedEOF) // the file was truncated after it was opened
		}
	}
	if len(data) > 0 {
		return read, io.EOF
	}
	return read, nil
}

func (p *volumeReader) Close() error {
	var problems []error
	for _, file := range p.files {
		problems = append(problems, file.Close())
	}
	return errors.Join(problems...)
}

// unpack replaces a compressed air-gap file with a decompressed temporary file. It does nothing if the file is not
// compressed. The temporary file is already deleted from its folder, so it disappears even if the process is killed.
func (f *File) unpack() error {
	magic := make([]byte, 4)
	if _, err := f.at.ReadAt(magic, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(magic) != "\x28\xb5\x2f\xfd" {
		return nil
	}
	decoder, err := zstd.NewReader(io.NewSectionReader(f.at, 0, f.size), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindowBytes))
	if err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	defer decoder.Close()
	file, err := os.CreateTemp("", "kyma-pull-carried-*.tar")
	if err != nil {
		return fmt.Errorf(
			"decompress: %w: make the folder for temporary files writable, or set TMPDIR to another folder", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return errors.Join(err, file.Close())
	}
	limit := maxUnpacked(f.size)
	n, err := io.Copy(file, io.LimitReader(decoder, limit+1))
	switch {
	case err != nil && isWriteError(err):
		return errors.Join(
			fmt.Errorf("decompress into a temporary file: %w: free disk space there, or set TMPDIR to another folder",
				err), file.Close())
	case err != nil:
		return errors.Join(refusal.New(refusal.Malformed, "decompress: %w: the file was cut off or changed", err),
			file.Close())
	case n > limit:
		return errors.Join(refusal.New(refusal.TooLarge, "unpacks to more than %d bytes", limit), file.Close())
	}
	before := f.closer
	f.at, f.size, f.closer = file, n, file
	return before.Close()
}

func maxUnpacked(size int64) int64 {
	return min(max(ratioFreeBytes, maxRatio*size), largeRatio*size+largeFreeBytes)
}

// isWriteError reports whether an error occurred while the temporary file was written.
func isWriteError(err error) bool {
	var path *os.PathError
	return errors.As(err, &path) && path.Op == "write"
}

// ParseSize parses a size such as "700M" or "4G", in powers of 1024.
func ParseSize(text string) (int64, error) {
	units := map[byte]int64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}
	digits, factor := text, int64(1)
	if n := len(text); n > 0 && units[text[n-1]] > 0 {
		digits, factor = text[:n-1], units[text[n-1]]
	}
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || number < 1 || number > 1<<40/factor {
		return 0, fmt.Errorf("size %q: must be a number followed by K, M or G, such as 4G", text)
	}
	return number * factor, nil
}
