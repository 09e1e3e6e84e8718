package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Close writes the archive to its path atomically. If it fails, the previous archive is unchanged.
func (w *Writer) Close() error {
	if !w.close() {
		return fmt.Errorf("common transport archive %s is closed", w.path)
	}
	err := w.publish()
	if err = errors.Join(err, w.clean()); err != nil {
		return fmt.Errorf("common transport archive %s: %w", w.path, err)
	}
	return nil
}

// Discard deletes the written data. After Close, it does nothing.
func (w *Writer) Discard() error {
	if !w.close() {
		return nil
	}
	return w.clean()
}

func (w *Writer) close() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := !w.closed
	w.closed = true
	return was
}

func (w *Writer) clean() error {
	var err error
	if w.root != nil {
		err = w.root.Close()
	}
	if w.dir != w.path && w.dir != "" {
		err = errors.Join(err, os.RemoveAll(w.dir)) // if publish has renamed w.dir, RemoveAll finds nothing
	}
	return err
}

func (w *Writer) publish() error {
	data, err := w.index.encode()
	if err != nil {
		return err
	}
	if len(data) > maxIndexBytes {
		return fmt.Errorf("%s is larger than %d bytes: write several archives", indexFile, maxIndexBytes)
	}
	if w.format == Folder {
		return w.publishFolder(data)
	}
	file, err := os.CreateTemp(w.dir, "packed")
	if err != nil {
		return err
	}
	if err := finish(file, func(to io.Writer) error { return w.pack(to, data) }); err != nil {
		return err
	}
	if err := w.free(); err != nil {
		return err
	}
	return w.moveTo(file.Name())
}

func (w *Writer) publishFolder(data []byte) error {
	if w.previousIndex != nil {
		now, err := (folder{dir: w.dir}).indexBytes()
		if err != nil || !bytes.Equal(now, w.previousIndex) {
			return errors.Join(fmt.Errorf("%s was modified concurrently: run the command again", indexFile), err)
		}
	}
	if err := store.SyncFolder(filepath.Join(w.dir, blobsDir)); err != nil {
		return err
	}
	err := w.writeFile(indexFile, func(to io.Writer) error { _, err := to.Write(data); return err })
	if err != nil || w.previousIndex != nil {
		return errors.Join(err, store.SyncFolder(w.dir))
	}
	if err := os.Chmod(w.dir, 0o755); err != nil {
		return err
	}
	return w.moveTo(w.dir)
}

func (w *Writer) moveTo(finished string) error {
	if err := os.Rename(finished, w.path); err != nil {
		return err
	}
	return store.SyncFolder(filepath.Dir(w.path))
}

func (w *Writer) free() error {
	if _, err := os.Lstat(w.path); w.replace || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.New("already exists (created concurrently): remove it or choose another path")
}

// pack writes the blobs and the index as a tar. It omits times and owners, so that equal archives have equal bytes.
func (w *Writer) pack(to io.Writer, index []byte) error {
	if w.format == TGZ {
		zip := gzip.NewWriter(to)
		return errors.Join(w.packTar(zip, index), zip.Close())
	}
	return w.packTar(to, index)
}

func (w *Writer) packTar(to io.Writer, index []byte) error {
	out := tar.NewWriter(to)
	if err := out.WriteHeader(&tar.Header{Name: indexFile, Typeflag: tar.TypeReg, Mode: 0o644,
		Size: int64(len(index))}); err != nil {
		return err
	}
	if _, err := out.Write(index); err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: blobsDir + "/", Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
		return err
	}
	staged := folder{dir: w.dir, maxEntries: math.MaxInt - 1}
	digests, err := staged.list()
	if err != nil {
		return err
	}
	slices.Sort(digests)
	for _, d := range digests {
		body, size, err := staged.open(d)
		if err != nil {
			return err
		}
		body.Close()
		name, err := blobName(d)
		if err != nil {
			return err
		}
		if err := out.WriteHeader(&tar.Header{Name: path.Join(blobsDir, name), Typeflag: tar.TypeReg, Mode: 0o644,
			Size: size}); err != nil {
			return err
		}
		verified, err := openVerified(staged, w.path, ocispec.Descriptor{Digest: d})
		if err != nil {
			return err
		}
		_, err = io.Copy(out, verified)
		if err = errors.Join(err, verified.Close()); err != nil {
			return err
		}
	}
	return out.Close()
}
