package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/errdef"
)

// maxPaddingBytes limits the number of zero bytes after a tar's end marker. The tar program pads its output to a
// multiple of 10 KiB.
const maxPaddingBytes = 1 << 20

// tarArchive contains the blob offsets in an open tar.
type tarArchive struct {
	file  io.ReaderAt
	close func() error
	index []byte // artifact-index.json, or nil
	found map[digest.Digest]byteRange
}

type byteRange struct{ offset, size int64 }

// openFile opens an archive in a file. It unpacks a gzipped tar into a temporary file, so that blobs can be read by
// offset. The temporary file has no name, so it does not stay behind if the process is killed.
func (l Limits) openFile(path string) (blobReader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var magic [4]byte
	if _, err := file.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, file.Close())
	}
	switch {
	case bytes.HasPrefix(magic[:], []byte{0x1f, 0x8b}):
		unpacked, err := l.gunzip(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
		file = unpacked
	case magic == [4]byte{0x28, 0xb5, 0x2f, 0xfd}:
		return nil,
			errors.Join(errors.New("compression with zstd is not supported: use a folder, tar or tgz"), file.Close())
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	t, err := scan(io.NewSectionReader(file, 0, info.Size()), l.Entries)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	t.close = file.Close
	return t, nil
}

func (l Limits) gunzip(packed *os.File) (*os.File, error) {
	info, err := packed.Stat()
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "kyma-pull-archive-*.tar")
	if err != nil {
		return nil,
			fmt.Errorf("unpack: %w: make the folder for temporary files writable, or set TMPDIR to another folder", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	limit := min(l.UnpackedBytes, max(ratioFreeBytes, l.Ratio*info.Size()))
	if err := gunzip(file, packed, limit); err != nil {
		return nil, errors.Join(fmt.Errorf("unpack into a temporary file: %w", err), file.Close())
	}
	return file, nil
}

func gunzip(to io.Writer, from io.Reader, limit int64) error {
	in := bufio.NewReader(from)
	unzip, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	unzip.Multistream(false)
	n, err := io.Copy(to, io.LimitReader(unzip, limit+1))
	switch {
	case err != nil:
		return err
	case n > limit:
		return fmt.Errorf("the archive unpacks to more than %d bytes", limit)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("unexpected data after the gzip stream"), err)
	}
	return nil
}

func scan(file *io.SectionReader, maxEntries int) (*tarArchive, error) {
	t := &tarArchive{file: file, found: map[digest.Digest]byteRange{}}
	reader, seen, end := tar.NewReader(file), map[string]bool{}, int64(0)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return t, checkEnd(file, end)
		}
		if err != nil {
			return nil, fmt.Errorf("read tar: %w", err)
		}
		name, err := entryName(header)
		switch {
		case err != nil:
			return nil, err
		case seen[name]:
			return nil, fmt.Errorf("duplicate entry %q", name)
		case len(seen) == maxEntries:
			return nil, fmt.Errorf("the archive has more than %d entries", maxEntries)
		}
		seen[name] = true
		// tar.Reader does not read ahead, so the entry's data starts at the file's current offset.
		offset, err := file.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		if header.Size > file.Size()-offset {
			return nil,
				fmt.Errorf("entry %q of %d bytes is incomplete: the archive was truncated, fetch it again", name,
					header.Size)
		}
		end = offset + (header.Size+511)&^511
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if name == indexFile {
			if t.index, err = readBounded(reader, indexFile, maxIndexBytes); err != nil {
				return nil, err
			}
			continue
		}
		d, _ := blobDigest(strings.TrimPrefix(name, blobsDir+"/"))
		t.found[d] = byteRange{offset, header.Size}
	}
}

// entryName returns the name of an entry without a leading "./". It returns an error for an entry that is not the
// index, a blob, or the folder of blobs.
func entryName(header *tar.Header) (string, error) {
	for key := range header.PAXRecords { // reject sparse files, which are not stored as one range of bytes
		if strings.HasPrefix(key, "GNU.sparse.") {
			return "", fmt.Errorf("entry %q is a sparse file", header.Name)
		}
	}
	name := strings.TrimPrefix(header.Name, "./")
	if header.Typeflag == tar.TypeDir {
		if name = strings.TrimSuffix(name, "/"); name == "" || name == "." || name == blobsDir {
			return name + "/", nil
		}
		return "", fmt.Errorf("entry %q: the only allowed folder is %s", header.Name, blobsDir)
	}
	if header.Typeflag != tar.TypeReg {
		return "", fmt.Errorf("entry %q has type %q, must be a file or folder", header.Name, header.Typeflag)
	}
	if name == indexFile {
		return name, nil
	}
	if file, ok := strings.CutPrefix(name, blobsDir+"/"); ok && blobFile.MatchString(file) {
		return name, nil
	}
	return "", fmt.Errorf("entry %q: must be %s, or %s/ with a digest as sha256.<hexadecimal>", header.Name, indexFile,
		blobsDir)
}

// checkEnd returns an error if the end marker after the last entry is missing, because the tar may be truncated. It
// also returns an error if data follows the end marker, because other programs may read this data.
func checkEnd(file *io.SectionReader, end int64) error {
	rest, err := readBounded(io.NewSectionReader(file, end, file.Size()-end), "data after the last entry",
		maxPaddingBytes)
	switch {
	case err != nil:
		return err
	case len(rest) < 512:
		return errors.New("the end marker is missing: the archive was truncated, fetch it again")
	case slices.ContainsFunc(rest, func(b byte) bool { return b != 0 }):
		return errors.New("unexpected data after the last entry")
	}
	return nil
}

func (t *tarArchive) Close() error { return t.close() }

func (t *tarArchive) indexBytes() ([]byte, error) {
	if t.index == nil {
		return nil, errdef.ErrNotFound
	}
	return t.index, nil
}

func (t *tarArchive) open(d digest.Digest) (io.ReadCloser, int64, error) {
	if _, err := blobName(d); err != nil {
		return nil, 0, err
	}
	at, ok := t.found[d]
	if !ok {
		return nil, 0, errdef.ErrNotFound
	}
	return io.NopCloser(io.NewSectionReader(t.file, at.offset, at.size)), at.size, nil
}

func (t *tarArchive) list() ([]digest.Digest, error) {
	found := make([]digest.Digest, 0, len(t.found))
	for d := range t.found {
		found = append(found, d)
	}
	slices.Sort(found)
	return found, nil
}
