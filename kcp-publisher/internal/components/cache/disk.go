package cache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

var blobFile = regexp.MustCompile(`^sha(256\.[0-9a-f]{64}|512\.[0-9a-f]{128})$`)

// blobFileName returns the name of a blob's file. It returns false for a digest that is not a safe file name.
func blobFileName(d digest.Digest) (string, bool) {
	name := strings.Replace(d.String(), ":", ".", 1)
	return path.Join(blobsDir, name), blobFile.MatchString(name) && d.Validate() == nil
}

func (c *Cache) canStore(desc ocispec.Descriptor) bool {
	_, ok := blobFileName(desc.Digest)
	return ok && desc.Size >= 0 && desc.Size <= c.maxBytes/blobShare
}

// load opens and verifies a blob. It returns nil if the blob does not exist or is damaged.
func (c *Cache) load(d digest.Digest, size int64) io.ReadCloser {
	name, ok := blobFileName(d)
	if !ok {
		return nil
	}
	body, err := c.check(name, d, size)
	if err == nil {
		now := time.Now()
		_ = c.root.Chtimes(name, now, now) // mark the file as used; after an error, the file is only deleted sooner
		return body
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errOtherSize) {
		return nil
	}
	_ = c.root.RemoveAll(name) // after an error, the next read checks the damaged file again
	return nil
}

var errOtherSize = errors.New("the cached file has a different size")

func (c *Cache) check(name string, d digest.Digest, size int64) (io.ReadCloser, error) {
	file, err := c.openRegular(name)
	if err != nil {
		return nil, err
	}
	body, is, err := openChecked(file, d)
	if err == nil && is != size {
		err = errOtherSize
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return body, nil
}

func openChecked(file *os.File, d digest.Digest) (io.ReadCloser, int64, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	size := info.Size()
	if size <= smallBytes {
		data := make([]byte, size)
		if _, err := io.ReadFull(file, data); err != nil {
			return nil, 0, err
		}
		if d.Algorithm().FromBytes(data) != d {
			return nil, 0, content.ErrMismatchedDigest
		}
		return io.NopCloser(bytes.NewReader(data)), size, file.Close()
	}
	reader := content.NewVerifyReader(file, ocispec.Descriptor{Digest: d, Size: size})
	if _, err := io.Copy(io.Discard, reader); err != nil {
		return nil, 0, err
	}
	if err := reader.Verify(); err != nil {
		return nil, 0, err
	}
	_, err = file.Seek(0, io.SeekStart)
	return file, size, err
}

// openRegular opens a regular file in the cache's folder. It does not follow symbolic links and does not block on
// pipes.
func (c *Cache) openRegular(name string) (*os.File, error) {
	before, err := c.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file (%s)", name, before.Mode().Type())
	}
	file, err := c.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if after, err := file.Stat(); err != nil || !after.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", name), err, file.Close())
	}
	return file, nil
}

// errDisk is an error from writing to the disk, in contrast to an error from reading the source.
type errDisk struct{ error }

func (e errDisk) Unwrap() error { return e.error }

// store writes a blob to the cache. For a blob of at most smallBytes, it also returns the content. If writing to the
// disk fails, the error is an errDisk.
func (c *Cache) store(desc ocispec.Descriptor, body io.Reader) ([]byte, error) {
	if desc.Size <= smallBytes {
		data, err := content.ReadAll(body, desc)
		if err != nil {
			return nil, err
		}
		return data, c.storeBlob(desc, bytes.NewReader(data))
	}
	source := &verifyingReader{body: content.NewVerifyReader(body, desc)}
	err := c.storeBlob(desc, source)
	if source.err != nil {
		return nil, source.err
	}
	return nil, err
}

// verifyingReader returns an error at the end of a body that does not match its digest.
type verifyingReader struct {
	body *content.VerifyReader
	err  error
}

func (w *verifyingReader) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if errors.Is(err, io.EOF) {
		if wrong := w.body.Verify(); wrong != nil {
			err = wrong
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// newVerifyingReader wraps body in a reader that returns an error at the end if the content does not match desc.
func newVerifyingReader(desc ocispec.Descriptor, body io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{&verifyingReader{body: content.NewVerifyReader(body, desc)}, body}
}

// storeBlob writes a blob to a file. It does not sync the file, because a later read detects a file that a crash has
// damaged.
func (c *Cache) storeBlob(desc ocispec.Descriptor, body io.Reader) error {
	name, _ := blobFileName(desc.Digest)
	partial, err := c.writePartial(body, false)
	if isFull(err) {
		err = errors.Join(err, c.makeRoom()) // this helps only later blobs, because body cannot be read again
	}
	if err != nil {
		return errDisk{err}
	}
	now := time.Now()
	if err := errors.Join(c.root.Chtimes(partial, now, now), c.root.Rename(partial, name)); err != nil {
		return errDisk{errors.Join(err, c.root.Remove(partial))}
	}
	c.mu.Lock()
	c.written += desc.Size
	c.bytes += desc.Size
	full := c.bytes > c.maxBytes || c.written > c.maxBytes/scanShare
	c.mu.Unlock()
	if !full {
		return nil
	}
	if err := c.evict(); err != nil {
		return errDisk{err}
	}
	return nil
}

// writeDurable writes and syncs a file for data that must not be lost. If the disk is full, it deletes blobs and
// retries once.
func (c *Cache) writeDurable(data []byte) (string, error) {
	name, err := c.writePartial(bytes.NewReader(data), true)
	if !isFull(err) {
		return name, err
	}
	if err := c.makeRoom(); err != nil {
		return "", err
	}
	return c.writePartial(bytes.NewReader(data), true)
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

func (c *Cache) writePartial(body io.Reader, durable bool) (string, error) {
	file, err := os.CreateTemp(path.Join(c.dir, partialDir), "*")
	if err != nil {
		return "", err
	}
	name := path.Join(partialDir, path.Base(file.Name()))
	_, err = io.Copy(file, body)
	if err == nil && durable {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, c.root.Remove(name))
	}
	return name, nil
}

type storedFile struct {
	name   string
	size   int64
	usedAt time.Time
}

// evict deletes the least recently used files if the cache is full. It deletes a tenth more than needed, so that a full
// cache does not scan the folder for every new blob.
func (c *Cache) evict() error {
	return c.evictBeyond(func(int64) int64 { return c.maxBytes })
}

// makeRoom deletes files after a disk-full error. The disk can be full before the cache reaches its limit.
func (c *Cache) makeRoom() error {
	return c.evictBeyond(func(bytes int64) int64 { return bytes - 1 })
}

// evictBeyond deletes the least recently used files until the cache does not exceed a limit. The function limitOf
// returns the limit for the current size of the cache.
func (c *Cache) evictBeyond(limitOf func(bytes int64) int64) error {
	c.eviction.Lock()
	defer c.eviction.Unlock()
	files, err := c.files()
	if err != nil {
		return err
	}
	var bytes int64
	for _, f := range files {
		bytes += f.size
	}
	if limit := limitOf(bytes); bytes > limit {
		slices.SortFunc(files, func(a, b storedFile) int { return a.usedAt.Compare(b.usedAt) })
		for _, f := range files {
			if bytes <= limit-limit/10 {
				break
			}
			if err := c.root.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			bytes -= f.size
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes, c.written = bytes, 0
	return nil
}

func (c *Cache) files() ([]storedFile, error) {
	entries, err := c.readDir(blobsDir)
	if err != nil {
		return nil, err
	}
	files := make([]storedFile, 0, len(entries))
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) { // another process deleted the file
			continue
		}
		if err != nil {
			return nil, err
		}
		if blobFile.MatchString(entry.Name()) && info.Mode().IsRegular() {
			files = append(files, storedFile{
				name: path.Join(blobsDir, entry.Name()), size: info.Size(), usedAt: info.ModTime(),
			})
		}
	}
	return files, nil
}

func (c *Cache) dropAbandoned() error {
	entries, err := c.readDir(partialDir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || time.Since(info.ModTime()) < abandonedAfter {
			continue
		}
		if err := c.root.RemoveAll(path.Join(partialDir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cache) readDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(c.root.FS(), name)
}
