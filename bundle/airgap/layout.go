package airgap

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Reference is a manifest's descriptor and its name in the air-gap file, "<repository>:<tag>".
type Reference struct {
	Name       string
	Descriptor ocispec.Descriptor
}

// Item is a blob to write into an air-gap file. Open returns its bytes.
type Item struct {
	Descriptor ocispec.Descriptor
	Open       func(context.Context) (io.ReadCloser, error)
}

// InMemory returns an Item for a blob in memory.
func InMemory(blob bundle.Blob) Item {
	return Item{
		blob.Descriptor, func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(blob.Bytes)), nil
		},
	}
}

// Layout is an air-gap file's content. It can omit blobs that the importer already has.
type Layout struct {
	References []Reference
	Items      []Item
}

// SizeBytes returns the total size of all blobs in the layout. A blob that is listed several times counts once.
func (l Layout) SizeBytes() int64 {
	total := int64(0)
	for _, item := range l.sortedItems() {
		total += item.Descriptor.Size
	}
	return total
}

func (l Layout) sortedItems() []Item {
	items := slices.Clone(l.Items)
	slices.SortStableFunc(items, func(a, b Item) int { return cmp.Compare(a.Descriptor.Digest, b.Descriptor.Digest) })
	return slices.CompactFunc(items, func(a, b Item) bool { return a.Descriptor.Digest == b.Descriptor.Digest })
}

// index returns the content of index.json, which lists the references. It returns an error if the file does not contain
// a referenced manifest, because common tools fail if a listed manifest is missing.
func (l Layout) index() ([]byte, error) {
	there := map[digest.Digest]bool{}
	for _, item := range l.Items {
		there[item.Descriptor.Digest] = true
	}
	index := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{},
	}
	references := slices.Clone(l.References)
	slices.SortFunc(references, func(a, b Reference) int { return cmp.Compare(a.Name, b.Name) })
	for i, r := range references {
		if i > 0 && references[i-1].Name == r.Name {
			if references[i-1].Descriptor.Digest != r.Descriptor.Digest {
				return nil,
					fmt.Errorf("reference %s has two digests, %s and %s", r.Name, references[i-1].Descriptor.Digest,
						r.Descriptor.Digest)
			}
			continue
		}
		if !there[r.Descriptor.Digest] {
			return nil, fmt.Errorf("reference %s: its manifest %s is not in the file", r.Name, r.Descriptor.Digest)
		}
		index.Manifests = append(index.Manifests, ocispec.Descriptor{
			MediaType: r.Descriptor.MediaType, Digest: r.Descriptor.Digest, Size: r.Descriptor.Size,
			Annotations: map[string]string{ocispec.AnnotationRefName: r.Name},
		})
	}
	return json.Marshal(index)
}

const (
	layoutName  = ocispec.ImageLayoutFile
	indexName   = ocispec.ImageIndexFile
	blobsPrefix = ocispec.ImageBlobsDir + "/sha256/"
)

type entry struct {
	name   string
	size   int64
	digest digest.Digest
	open   func(context.Context) (io.ReadCloser, error)
}

func (l Layout) entries() ([]entry, error) {
	index, err := l.index()
	if err != nil {
		return nil, err
	}
	if len(index) > maxIndexBytes {
		return nil,
			fmt.Errorf("index is %d bytes, must be at most %d: export fewer runtimes at once", len(index),
				maxIndexBytes)
	}
	version, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return nil, err
	}
	named := func(name string, data []byte) entry {
		return entry{name, int64(len(data)), digest.FromBytes(data), InMemory(bundle.NewBlob("", data)).Open}
	}
	entries := []entry{named(layoutName, version), named(indexName, index)}
	for _, item := range l.sortedItems() {
		d := item.Descriptor
		if err := d.Digest.Validate(); err != nil || d.Digest.Algorithm() != digest.SHA256 {
			return nil, fmt.Errorf("blob %q: must be a sha256 digest", d.Digest)
		}
		if d.Size < 0 || d.Size > maxBlobBytes {
			return nil, fmt.Errorf("blob %s: %d bytes, must be at most %d", d.Digest, d.Size, int64(maxBlobBytes))
		}
		entries = append(entries, entry{blobsPrefix + d.Digest.Encoded(), d.Size, d.Digest, item.Open})
	}
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("the file has %d blobs, must be at most %d: export fewer runtimes at once", len(entries),
			maxEntries)
	}
	return entries, nil
}
