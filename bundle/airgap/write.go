package airgap

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Packing configures whether an air-gap file is compressed and divided into volumes.
type Packing struct {
	Zstd bool
	// VolumeBytes is the maximum size of a volume, or 0 to write one file.
	VolumeBytes int64
}

const (
	block        = 512
	trailerBytes = 2 * block
	partial      = ".partial"
	packed       = ".packed"
)

// Write writes an air-gap file, which can be divided into volumes, and returns the names of the written files. If the
// file path.partial exists, Write continues the interrupted export. It calls advance with the size of each blob.
func Write(ctx context.Context, path string, layout Layout, packing Packing, advance func(int64)) ([]string, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder: choose a file, such as %s", path, filepath.Join(path, "bundles.tar"))
	}
	entries, err := layout.entries()
	if err != nil {
		return nil, err
	}
	file, err := openPartial(path + partial)
	if err != nil {
		return nil, err
	}
	err = writeTar(ctx, file, entries, advance)
	if err == nil && packing != (Packing{}) {
		var names []string
		names, err = pack(file, path, packing)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
		return names, os.Remove(path + partial)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return []string{path}, rename(path+partial, path)
}

// openPartial opens a partial file without following a symbolic link. An attacker's link on a removable disk could make
// the export overwrite another file.
func openPartial(path string) (*os.File, error) {
	file, _, err := openRegular(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW)
	return file, err
}

// rename renames a file and syncs its folder, because an operator can remove the disk immediately after the export.
func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return store.SyncFolder(filepath.Dir(to))
}

// writeTar continues a partial tar file. It keeps the entries that are already written correctly and writes the rest.
func writeTar(ctx context.Context, file *os.File, entries []entry, advance func(int64)) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	offset, intact := int64(0), true
	for _, e := range entries {
		header, err := newHeader(e)
		if err != nil {
			return err
		}
		end := offset + int64(len(header)) + padSize(e.size)
		if intact {
			if intact = end <= info.Size() && isWritten(file, offset, header, e); !intact {
				if err := file.Truncate(offset); err != nil {
					return err
				}
			}
		}
		if !intact {
			if err := writeEntry(ctx, file, offset, header, e); err != nil {
				return err
			}
		}
		offset = end
		advance(e.size)
	}
	if err := file.Truncate(offset); err != nil {
		return err
	}
	if err := file.Truncate(offset + trailerBytes); err != nil { // zeros mark the end of a tar
		return err
	}
	return file.Sync()
}

func padSize(size int64) int64 { return (size + block - 1) &^ (block - 1) }

func newHeader(e entry) ([]byte, error) {
	var buffer bytes.Buffer
	err := tar.NewWriter(&buffer).WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: e.name, Size: e.size, Mode: 0o644, Format: tar.FormatUSTAR,
	})
	if err != nil {
		return nil, fmt.Errorf("entry %s: %w", e.name, err)
	}
	return buffer.Bytes(), nil
}

func isWritten(file io.ReaderAt, offset int64, header []byte, e entry) bool {
	found := make([]byte, len(header))
	if _, err := file.ReadAt(found, offset); err != nil || !bytes.Equal(found, header) {
		return false
	}
	d, err := digest.FromReader(io.NewSectionReader(file, offset+int64(len(header)), e.size))
	return err == nil && d == e.digest
}

func writeEntry(ctx context.Context, file *os.File, offset int64, header []byte, e entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	body, err := e.open(ctx)
	if err != nil {
		return fmt.Errorf("read %s: %w", e.digest, err)
	}
	defer body.Close()
	to := io.NewOffsetWriter(file, offset)
	if _, err := to.Write(header); err != nil {
		return err
	}
	hash := digest.SHA256.Hash()
	n, err := io.Copy(io.MultiWriter(to, hash), io.LimitReader(body, e.size+1))
	if err != nil {
		return fmt.Errorf("copy %s: %w", e.digest, err)
	}
	if found := digest.NewDigest(digest.SHA256, hash); n != e.size || found != e.digest {
		return fmt.Errorf("read blob %s of %d bytes: got %d bytes with digest %s", e.digest, e.size, n, found)
	}
	return file.Truncate(offset + int64(len(header)) + padSize(e.size))
}

// pack compresses file and divides it into volumes, as configured in packing. The volumes get their final names after
// all of them are written.
func pack(file *os.File, path string, packing Packing) ([]string, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	out := &volumes{path: path, limit: packing.VolumeBytes}
	err := func() error {
		if !packing.Zstd {
			_, err := io.Copy(out, file)
			return err
		}
		encoder, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(maxWindowBytes))
		if err != nil {
			return err
		}
		_, err = io.Copy(encoder, file)
		return errors.Join(err, encoder.Close())
	}()
	if err = errors.Join(err, out.finish()); err != nil {
		return nil, errors.Join(err, out.discard())
	}
	return out.publish()
}

// volumes is an io.Writer that divides a stream into consecutive files of at most limit bytes.
type volumes struct {
	path  string
	limit int64
	file  *os.File
	room  int64
	names []string
}

func (v *volumes) Write(data []byte) (int, error) {
	written := 0
	for len(data) > 0 {
		if v.file == nil || v.limit > 0 && v.room == 0 {
			if err := v.next(); err != nil {
				return written, err
			}
		}
		part := data
		if v.limit > 0 && int64(len(part)) > v.room {
			part = part[:v.room]
		}
		n, err := v.file.Write(part)
		written, v.room, data = written+n, v.room-int64(n), data[n:]
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

func (v *volumes) next() error {
	if err := v.finish(); err != nil {
		return err
	}
	name := v.path
	if v.limit > 0 {
		if len(v.names) == maxVolumes {
			return fmt.Errorf("more than %d volumes: choose a larger volume size", maxVolumes)
		}
		name = fmt.Sprintf("%s.%03d", v.path, len(v.names)+1)
	}
	if err := os.Remove(name + packed); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(name+packed, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	v.file, v.room, v.names = file, v.limit, append(v.names, name)
	return nil
}

func (v *volumes) finish() error {
	if v.file == nil {
		return nil
	}
	err := errors.Join(v.file.Sync(), v.file.Close())
	v.file = nil
	return err
}

func (v *volumes) discard() error {
	var problems []error
	for _, name := range v.names {
		problems = append(problems, os.Remove(name+packed))
	}
	return errors.Join(problems...)
}

func (v *volumes) publish() ([]string, error) {
	if v.limit > 0 {
		following := fmt.Sprintf("%s.%03d", v.path, len(v.names)+1)
		if _, err := os.Lstat(following); err == nil {
			return nil,
				errors.Join(
					fmt.Errorf(
						"%s belongs to another export and would be mistaken for a volume of this one: remove it and "+
							"all later volumes, and export again", following), v.discard())
		}
	}
	for _, name := range v.names {
		if err := rename(name+packed, name); err != nil {
			return nil, err
		}
	}
	return v.names, nil
}
