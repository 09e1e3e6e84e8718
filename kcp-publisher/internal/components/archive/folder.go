package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/errdef"
)

// folder is an archive in a folder.
type folder struct {
	dir        string
	maxEntries int
}

func (f folder) Close() error { return nil }

func (f folder) indexBytes() ([]byte, error) {
	file, _, err := openRegular(f.dir, indexFile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readBounded(file, indexFile, maxIndexBytes)
}

func (f folder) open(d digest.Digest) (io.ReadCloser, int64, error) {
	name, err := blobName(d)
	if err != nil {
		return nil, 0, err
	}
	return openRegular(f.dir, path.Join(blobsDir, name))
}

func (f folder) list() ([]digest.Digest, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	dir, err := root.Open(blobsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(f.maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(names) > f.maxEntries {
		return nil, fmt.Errorf("%s: more than %d files", blobsDir, f.maxEntries)
	}
	var found []digest.Digest
	for _, name := range names {
		if d, ok := blobDigest(name); ok {
			found = append(found, d)
		}
	}
	return found, nil
}

// openRegular opens a regular file in the folder and returns its size. Archives come from third parties, so it does not
// follow links out of the folder and does not block on pipes.
func openRegular(dir, name string) (*os.File, int64, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, errdef.ErrNotFound
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file (%s)", name, info.Mode().Type())
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}
