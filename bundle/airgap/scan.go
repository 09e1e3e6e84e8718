package airgap

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// File is an open air-gap file. All its blobs match their digests.
type File struct {
	at         io.ReaderAt
	size       int64
	closer     io.Closer
	index      []byte
	blobs      map[digest.Digest]byteRange
	references map[string]ocispec.Descriptor
}

type byteRange struct{ offset, size int64 }

// Close closes the file.
func (f *File) Close() error { return f.closer.Close() }

// References returns the manifests in index.json, sorted by name.
func (f *File) References() []Reference {
	found := make([]Reference, 0, len(f.references))
	for _, name := range slices.Sorted(maps.Keys(f.references)) {
		found = append(found, Reference{name, f.references[name]})
	}
	return found
}

// Size returns a blob's size, and reports whether the file contains the blob.
func (f *File) Size(d digest.Digest) (int64, bool) {
	found, ok := f.blobs[d]
	return found.size, ok
}

// Repository returns a reader for one repository in the air-gap file.
func (f *File) Repository(name string) store.Reader { return repository{f, name} }

type repository struct {
	file *File
	name string
}

func (r repository) Tags(_ context.Context, _ string, fn func(tags []string) error) error {
	var tags []string
	for name := range r.file.references {
		if tag, ok := strings.CutPrefix(name, r.name+":"); ok {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	return fn(tags)
}

func (r repository) Resolve(_ context.Context, reference string) (ocispec.Descriptor, error) {
	if found, ok := r.file.references[r.name+":"+reference]; ok {
		return found, nil
	}
	for _, found := range r.file.references {
		if found.Digest.String() == reference {
			return found, nil
		}
	}
	return ocispec.Descriptor{}, fmt.Errorf("%s:%s: %w", r.name, reference, store.ErrNotFound)
}

func (r repository) Exists(_ context.Context, desc ocispec.Descriptor) (bool, error) {
	_, ok := r.file.blobs[desc.Digest]
	return ok, nil
}

func (r repository) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	found, ok := r.file.blobs[desc.Digest]
	if !ok {
		return nil, fmt.Errorf("blob %s: %w", desc.Digest, store.ErrNotFound)
	}
	return io.NopCloser(io.NewSectionReader(r.file.at, found.offset, found.size)), nil
}

var blobName = regexp.MustCompile(`^` + blobsPrefix + `([0-9a-f]{64})$`)

func (f *File) scan(advance func(int64)) error {
	f.blobs = map[digest.Digest]byteRange{}
	section := io.NewSectionReader(f.at, 0, f.size)
	reader, end, seen := tar.NewReader(section), int64(0), map[string]bool{}
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return refusal.New(refusal.Malformed,
				"%w: the file is not the output of `kcp-publisher export`, or it was truncated or changed, or its volumes "+
					"are in another order", err)
		}
		name, refused := entryName(header)
		switch {
		case refused != nil:
			return refused
		case seen[name]:
			return refusal.New(refusal.Malformed, "duplicate entry %q", name)
		case len(seen) == maxEntries:
			return refusal.New(refusal.TooLarge, "more than %d entries", maxEntries)
		}
		seen[name] = true
		// tar.Reader does not read ahead, so the entry's data starts at the file's current offset.
		offset, err := section.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		if header.Size > f.size-offset {
			return refusal.New(refusal.Malformed,
				"entry %q is incomplete, must be %d bytes: the file was cut off, or a volume is missing", name,
				header.Size)
		}
		end = offset + padSize(header.Size)
		if err := f.readEntry(name, byteRange{offset, header.Size}, reader); err != nil {
			return err
		}
		advance(header.Size)
	}
	if err := f.checkEnd(end); err != nil {
		return err
	}
	return f.readIndex()
}

// entryName returns the name of a tar entry without a leading "./". It refuses entries that do not belong to an OCI
// image layout.
func entryName(header *tar.Header) (string, *refusal.Error) {
	for key := range header.PAXRecords { // a sparse file is not stored as one range of bytes
		if strings.HasPrefix(key, "GNU.sparse.") {
			return "", refusal.New(refusal.Malformed, "entry %q is a sparse file", header.Name)
		}
	}
	name := strings.TrimPrefix(header.Name, "./")
	if header.Typeflag == tar.TypeDir {
		if name = strings.TrimSuffix(name, "/"); name == "" || name == "." || name == "blobs" ||
			name == "blobs/sha256" {
			return name + "/", nil
		}
		return "", refusal.New(refusal.Malformed, "entry %q: unexpected folder, must be blobs/sha256", header.Name)
	}
	if header.Typeflag != tar.TypeReg {
		return "",
			refusal.New(refusal.Malformed, "entry %q has type %q, must be a file or folder", header.Name,
				header.Typeflag)
	}
	if name == layoutName || name == indexName || blobName.MatchString(name) {
		return name, nil
	}
	return "", refusal.New(refusal.Malformed, "entry %q: must be %s, %s or %s<digest>", header.Name, layoutName,
		indexName, blobsPrefix)
}

func (f *File) readEntry(name string, at byteRange, data io.Reader) error {
	if strings.HasSuffix(name, "/") {
		return nil
	}
	if m := blobName.FindStringSubmatch(name); m != nil {
		want := digest.NewDigestFromEncoded(digest.SHA256, m[1])
		found, err := digest.FromReader(data)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if found != want {
			return refusal.New(refusal.WrongDigest, "blob %s has digest %s: the file was changed or damaged", want,
				found)
		}
		f.blobs[want] = at
		return nil
	}
	if at.size > maxIndexBytes {
		return refusal.New(refusal.TooLarge, "%s is %d bytes, must be at most %d", name, at.size, maxIndexBytes)
	}
	content, err := io.ReadAll(data)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if name == indexName {
		f.index = content
	}
	return nil
}

// checkEnd returns an error if the tar has no end marker or contains data after the end marker. Without an end marker,
// the tar could be truncated. Other programs could read data after the end marker.
func (f *File) checkEnd(end int64) error {
	rest := f.size - end
	if rest < trailerBytes {
		return refusal.New(refusal.Malformed, "the end is missing: the file was cut off, or a volume is missing")
	}
	if rest > maxPaddingBytes {
		return refusal.New(refusal.Malformed, "%d bytes follow the last entry", rest)
	}
	data := make([]byte, rest)
	if _, err := f.at.ReadAt(data, end); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if slices.ContainsFunc(data, func(b byte) bool { return b != 0 }) {
		return refusal.New(refusal.Malformed, "data follows the last entry")
	}
	return nil
}

func (f *File) readIndex() error {
	if f.index == nil {
		return refusal.New(refusal.Malformed, "%s is missing: this is not an OCI layout", indexName)
	}
	var index ocispec.Index
	if err := json.Unmarshal(f.index, &index); err != nil {
		return refusal.New(refusal.Malformed, "%s: %w", indexName, err)
	}
	f.references = map[string]ocispec.Descriptor{}
	for _, d := range index.Manifests {
		name := d.Annotations[ocispec.AnnotationRefName]
		if name == "" {
			continue
		}
		if _, twice := f.references[name]; twice {
			return refusal.New(refusal.Malformed, "%s: duplicate name %q", indexName, name)
		}
		size, there := f.Size(d.Digest)
		if !there || size != d.Size {
			return refusal.New(refusal.Malformed,
				"%s: %s has digest %s and %d bytes, but the file does not contain this blob", indexName, name,
				d.Digest, d.Size)
		}
		f.references[name] = ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}
	}
	return nil
}
