package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// layoutBlobs checks the blobs of an OCI layout. A crash can leave an incomplete file, so layoutBlobs compares each
// file with its digest once, and again after the file changed. It is safe for concurrent use.
type layoutBlobs struct {
	dir string

	mu            sync.Mutex // guards completeBlobs
	completeBlobs map[digest.Digest]os.FileInfo
}

func newLayoutBlobs(dir string) *layoutBlobs {
	return &layoutBlobs{dir: dir, completeBlobs: map[digest.Digest]os.FileInfo{}}
}

func (b *layoutBlobs) path(d digest.Digest) string {
	return filepath.Join(b.dir, ocispec.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

func (b *layoutBlobs) has(d ocispec.Descriptor) (bool, error) {
	there, _, err := b.inspect(d)
	return there, err
}

func (b *layoutBlobs) inspect(d ocispec.Descriptor) (whole bool, info os.FileInfo, err error) {
	if err := d.Digest.Validate(); err != nil {
		return false, nil, err
	}
	info, err = os.Stat(b.path(d.Digest))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() != d.Size {
		return false, info, err
	}
	b.mu.Lock()
	before := b.completeBlobs[d.Digest]
	b.mu.Unlock()
	if before != nil && isUnchanged(before, info) {
		return true, info, nil
	}
	file, err := os.Open(b.path(d.Digest))
	if err != nil {
		return false, info, err
	}
	verifier := d.Digest.Verifier()
	_, err = io.Copy(verifier, file)
	if err = errors.Join(err, file.Close()); err != nil || !verifier.Verified() {
		return false, info, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.completeBlobs[d.Digest] = info
	return true, info, nil
}

// remove deletes a blob's damaged file, unless another process has replaced the file.
func (b *layoutBlobs) remove(d digest.Digest, damaged os.FileInfo) error {
	now, err := os.Stat(b.path(d))
	if errors.Is(err, os.ErrNotExist) || err == nil && !isUnchanged(damaged, now) {
		return nil
	}
	return errors.Join(err, ignoreMissing(os.Remove(b.path(d))))
}

// isUnchanged reports whether two Stat results describe the same unmodified file. It also compares time and size,
// because a new file often gets a deleted file's inode.
func isUnchanged(before, now os.FileInfo) bool {
	return os.SameFile(before, now) && before.ModTime().Equal(now.ModTime()) && before.Size() == now.Size()
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// markComplete syncs a new blob to disk and records it as complete.
func (b *layoutBlobs) markComplete(d digest.Digest) error {
	file, err := os.Open(b.path(d))
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.completeBlobs[d] = info
	return nil
}

// readRegular reads a regular file of at most limit bytes. It does not trust the file, because other users can write to
// the folder.
func readRegular(path string, limit int64) ([]byte, os.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK: opening a pipe must not block
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	var data []byte
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file (%s): restore it from a backup", path, info.Mode().Type())
	case info.Size() <= limit:
		data, err = io.ReadAll(io.LimitReader(file, limit+1))
	}
	if err == nil && max(info.Size(), int64(len(data))) > limit {
		err = fmt.Errorf("%s is larger than %d bytes: restore it from a backup", path, limit)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, nil, err
	}
	return data, info, nil
}
