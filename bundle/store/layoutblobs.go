package store

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// layoutBlobs are the blobs of a folder. A file that has its name is not always whole: it was cut off by a crash or a
// full disk, or damaged since. So each is read once before it counts as there, and again when it is another file than
// then. It is safe for concurrent use.
type layoutBlobs struct {
	dir string

	mu    sync.Mutex // guards what follows
	whole map[digest.Digest]os.FileInfo
}

func newLayoutBlobs(dir string) *layoutBlobs {
	return &layoutBlobs{dir: dir, whole: map[digest.Digest]os.FileInfo{}}
}

func (b *layoutBlobs) path(d digest.Digest) string {
	return filepath.Join(b.dir, ocispec.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

// has reports whether the blob is there with the bytes that its digest names.
func (b *layoutBlobs) has(d ocispec.Descriptor) (bool, error) {
	there, _, err := b.look(d)
	return there, err
}

// look is has, and returns the file that has the blob's name, nil for none.
func (b *layoutBlobs) look(d ocispec.Descriptor) (whole bool, info os.FileInfo, err error) {
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
	before := b.whole[d.Digest]
	b.mu.Unlock()
	if before != nil && unchanged(before, info) {
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
	b.whole[d.Digest] = info
	return true, info, nil
}

// remove removes the file that look found damaged, unless somebody has written another one since.
func (b *layoutBlobs) remove(d digest.Digest, damaged os.FileInfo) error {
	now, err := os.Stat(b.path(d))
	if errors.Is(err, os.ErrNotExist) || err == nil && !unchanged(damaged, now) {
		return nil
	}
	return errors.Join(err, ignoreMissing(os.Remove(b.path(d))))
}

// unchanged reports whether a file is the one of before, as far as the system tells. That it is in the same place of
// the disk says little: a new file often gets that of the one that was removed last.
func unchanged(before, now os.FileInfo) bool {
	return os.SameFile(before, now) && before.ModTime().Equal(now.ModTime()) && before.Size() == now.Size()
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// written makes a blob last that was written just now, and remembers it.
func (b *layoutBlobs) written(d digest.Digest) error {
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
	b.whole[d] = info
	return nil
}
