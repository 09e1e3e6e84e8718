// Package archive reads and writes OCM common transport archives: OCI artifacts with their repositories and tags in one
// folder, tar or gzipped tar, as the official ocm command line makes them.
//
// In goes a path; out come OCI repositories that oras reads from and copies into. What is read is bounded, and its
// digest checked while it is read; a tar with anything in it that is neither its index nor a blob named by digest is
// refused, and a folder's other files are not looked at. What is written appears at its path complete or not at all,
// and equal content gives equal bytes.
//
// It never follows a link out of an archive, never uses a name from an archive as a name on disk, never believes a size
// somebody declared, and never speaks to a network.
//
// Source: ocm-spec, doc/04-extensions/03-storage-backends/ctf.md.
package archive

import (
	"context"
	_ "crypto/sha256" // digests
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
	indexFile = "artifact-index.json"
	blobsDir  = "blobs"
	// descriptorsPath is where component versions are, by the OCM specification.
	descriptorsPath = "component-descriptors/"
)

// Limits bound what an archive may cost its reader. They may be lowered, never switched off.
type Limits struct {
	// Entries bounds files and folders of a tar, or blobs of a folder that are listed.
	Entries int
	// UnpackedBytes bounds what a gzipped tar may unpack to in the temporary folder.
	UnpackedBytes int64
	// Ratio bounds unpacked bytes by packed byte, once more than ratioFreeBytes were unpacked.
	Ratio int64
}

// DefaultLimits hold for Open. 100,000 entries are some ten thousand component versions, as many as an index has room
// for. 16 GiB are a release of all modules with their images. Images are compressed already, so that archives with them
// unpack to about their own size; manifests and charts do to ten or twenty times of it, and 200 is what only bombs
// reach.
func DefaultLimits() Limits { return Limits{Entries: 100_000, UnpackedBytes: 16 << 30, Ratio: 200} }

const (
	// maxIndexBytes bounds artifact-index.json: some ten thousand component versions.
	maxIndexBytes = 4 << 20
	// ratioFreeBytes may be unpacked whatever the ratio: a small archive is mostly the zeros between its files.
	ratioFreeBytes = 16 << 20
)

// Archive is a common transport archive, open for reading. It may be read by any number of goroutines. It shows the
// versions that its index had when it was opened.
type Archive struct {
	path  string
	index *index
	blobs blobs
}

// blobs gives the contents of an archive by digest. Nothing it gives is verified.
type blobs interface {
	// open wraps errdef.ErrNotFound when there is no such blob.
	open(d digest.Digest) (body io.ReadCloser, size int64, err error)
	list() ([]digest.Digest, error)
	// indexBytes is artifact-index.json. It wraps errdef.ErrNotFound when there is none.
	indexBytes() ([]byte, error)
	Close() error
}

// Open opens the folder, tar or gzipped tar at path, whichever it is by its content, within DefaultLimits.
func Open(path string) (*Archive, error) { return DefaultLimits().Open(path) }

// Open is the package's Open within other limits.
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

func (l Limits) openBlobs(path string) (blobs, error) {
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
	return nil, fmt.Errorf("is neither a folder nor a file but %s", info.Mode().Type())
}

func readIndex(from blobs) (*index, error) {
	data, err := from.indexBytes()
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, fmt.Errorf("%s: is missing: this is no common transport archive; ocm transfer componentarchive makes one of a component archive: %w", indexFile, err)
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

// Close lets go of files. A tar is read no more after it; a folder holds none.
func (a *Archive) Close() error { return a.blobs.Close() }

// String is the path that was opened.
func (a *Archive) String() string { return a.path }

// Open returns the repository with a component's versions. It does no I/O and never fails.
func (a *Archive) Open(component string) (oras.ReadOnlyTarget, error) {
	return a.Target(descriptorsPath + component), nil
}

// Repository is empty: no runtime reads an archive.
func (a *Archive) Repository(string) string { return "" }

// Target returns any repository of the archive by its relative name; one that the archive has not is empty.
//
// It resolves tags, digests of the index, and digests of manifests that image indexes in the archive refer to.
func (a *Archive) Target(name string) oras.ReadOnlyTarget {
	return repository{name: name, where: a.path, index: a.index, blobs: a.blobs}
}

// Versions returns the index, by repository and tag; entries without a tag come last in their repository.
func (a *Archive) Versions() []Version { return a.index.versions() }

// Verify reads every blob and checks its digest, and that every entry of the index has its manifest. The error names
// all that is wrong.
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

func verifyBlob(from blobs, where string, d digest.Digest) error {
	body, err := openVerified(from, where, ocispec.Descriptor{Digest: d})
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(io.Discard, body)
	return err
}

var blobFile = regexp.MustCompile(`^sha(256\.[0-9a-f]{64}|512\.[0-9a-f]{128})$`)

// blobName is the name of a blob's file below blobs. Only a digest that gives a name without any path in it has one.
func blobName(d digest.Digest) (string, error) {
	algorithm, encoded, _ := strings.Cut(d.String(), ":")
	name := algorithm + "." + encoded
	if !blobFile.MatchString(name) {
		return "", fmt.Errorf("digest %q: want sha256 or sha512 in lower-case hexadecimal", d)
	}
	return name, nil
}

// blobDigest is the other way round.
func blobDigest(name string) (digest.Digest, bool) {
	return digest.Digest(strings.Replace(name, ".", ":", 1)), blobFile.MatchString(name)
}
