// Package archive reads and writes OCM common transport archives in the format of the official ocm CLI. An archive
// contains OCI artifacts in a folder, tar or gzipped tar.
//
// Reads are limited in size and verified against digests. Writes are atomic, and equal content produces equal bytes.
// The package never follows a link out of an archive or uses a name from an archive as a file name.
//
// Source: ocm-spec, doc/04-extensions/03-storage-backends/ctf.md.
package archive

import (
	"context"
	_ "crypto/sha256" // registers the hash of digests
	_ "crypto/sha512"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/errdef"
)

const (
	indexFile       = "artifact-index.json"
	blobsDir        = "blobs"
	descriptorsPath = "component-descriptors/"
)

// Limits bounds the cost of reading an archive.
type Limits struct {
	// Entries limits the number of entries in a tar, or of files in the blobs folder.
	Entries int
	// UnpackedBytes limits the size in bytes of an unpacked gzipped tar.
	UnpackedBytes int64
	// Ratio is the maximum size of an unpacked gzipped tar, as a multiple of its compressed size.
	Ratio int64
}

// defaultLimits returns the limits that Open uses. They are sufficient for a release with all modules and their images.
func defaultLimits() Limits { return Limits{Entries: 100_000, UnpackedBytes: 16 << 30, Ratio: 200} }

const (
	maxIndexBytes = 4 << 20
	// ratioFreeBytes is an unpacked size in bytes. Limits.Ratio applies only to larger archives, because small tars
	// consist mostly of padding, which compresses well.
	ratioFreeBytes = 16 << 20
)

// Archive is a common transport archive that is open for reading. It is safe for concurrent use.
type Archive struct {
	path  string
	index *index
	blobs blobReader
}

type blobReader interface {
	// open returns an error that wraps errdef.ErrNotFound if the blob does not exist.
	open(d digest.Digest) (body io.ReadCloser, size int64, err error)
	list() ([]digest.Digest, error)
	// indexBytes returns artifact-index.json. The error wraps errdef.ErrNotFound if the file does not exist.
	indexBytes() ([]byte, error)
	Close() error
}

// Open opens the folder, tar or gzipped tar at path with defaultLimits.
func Open(path string) (*Archive, error) { return defaultLimits().Open(path) }

// Open opens an archive with these limits.
func (l Limits) Open(path string) (*Archive, error) {
	blobs, err := l.openBlobs(path)
	if err != nil {
		return nil, fmt.Errorf("common transport archive %s: %w", path, err)
	}
	x, err := readIndex(blobs)
	if err != nil {
		return nil, fmt.Errorf("common transport archive %s: %w", path, errors.Join(err, blobs.Close()))
	}
	return &Archive{path: path, index: x, blobs: blobs}, nil
}

func (l Limits) openBlobs(path string) (blobReader, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return folder{dir: path, maxEntries: l.Entries}, nil
	case info.Mode().IsRegular():
		return l.openFile(path)
	}
	return nil, fmt.Errorf("unsupported file type %s, must be a folder or file", info.Mode().Type())
}

func readIndex(from blobReader) (*index, error) {
	data, err := from.indexBytes()
	if errors.Is(err, errdef.ErrNotFound) {
		return nil,
			fmt.Errorf(
				"%s is missing: this is not a common transport archive; convert a component archive with "+
					"`ocm transfer componentarchive`: %w", indexFile, err)
	}
	if err != nil {
		return nil, err
	}
	x, err := decodeIndex(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", indexFile, err)
	}
	return x, nil
}

// Close closes the archive's file.
func (a *Archive) Close() error { return a.blobs.Close() }

// String returns the opened path.
func (a *Archive) String() string { return a.path }

// Open returns the repository with a component's versions. It does not perform I/O and never fails.
func (a *Archive) Open(component string) (oras.ReadOnlyTarget, error) {
	return a.Target(descriptorsPath + component), nil
}

// Repository returns an empty string, because runtimes cannot read archives.
func (a *Archive) Repository(string) string { return "" }

// Target returns the repository with this relative name. If the archive does not contain the name, the repository is
// empty.
func (a *Archive) Target(name string) oras.ReadOnlyTarget {
	return repository{name: name, archivePath: a.path, index: a.index, blobs: a.blobs}
}

// Versions returns the index entries, sorted by repository and tag. Entries without a tag come last in their
// repository.
func (a *Archive) Versions() []Version { return a.index.versions() }

// Verify checks every blob's digest, and that every index entry's manifest exists. The error lists all problems.
func (a *Archive) Verify(ctx context.Context) error {
	digests, err := a.blobs.list()
	if err != nil {
		return fmt.Errorf("common transport archive %s: %w", a.path, err)
	}
	var wrong []error
	for _, d := range digests {
		if err := ctx.Err(); err != nil {
			return err
		}
		wrong = append(wrong, verifyBlob(a.blobs, a.path, d))
	}
	for _, v := range a.Versions() {
		if _, err := a.Target(v.Repository).Resolve(ctx, v.Digest.String()); err != nil {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

func verifyBlob(from blobReader, where string, d digest.Digest) error {
	body, err := openVerified(from, where, ocispec.Descriptor{Digest: d})
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(io.Discard, body)
	return err
}

var blobFile = regexp.MustCompile(`^sha(256\.[0-9a-f]{64}|512\.[0-9a-f]{128})$`)

// blobName returns the file name of a blob in an archive. It returns an error for a digest that is not a safe file
// name.
func blobName(d digest.Digest) (string, error) {
	algorithm, encoded, _ := strings.Cut(d.String(), ":")
	name := algorithm + "." + encoded
	if !blobFile.MatchString(name) {
		return "", fmt.Errorf("digest %q: must be sha256 or sha512 in lower-case hexadecimal digits", d)
	}
	return name, nil
}

func blobDigest(name string) (digest.Digest, bool) {
	return digest.Digest(strings.Replace(name, ".", ":", 1)), blobFile.MatchString(name)
}
