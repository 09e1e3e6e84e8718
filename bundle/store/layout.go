package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
)

// LayoutScheme starts a location that is a folder instead of a registry.
const LayoutScheme = "oci-layout:"

// Layout keeps repositories in an OCI image layout: a folder, or for reading also a tar file.
type Layout struct {
	path  string
	index *layoutIndex
}

// NewLayout returns the layout at a path. It does no I/O.
func NewLayout(path string) *Layout { return &Layout{path, newLayoutIndex(path)} }

// String returns oci-layout:PATH.
func (l *Layout) String() string { return LayoutScheme + l.path }

// Name returns ./repository.
func (l *Layout) Name(repository string) string { return "./" + repository }

// Holds reports whether a repository is one of the layout.
func (l *Layout) Holds(repository string) bool { return strings.HasPrefix(repository, "./") }

// Repository opens a repository for reading and writing. A folder becomes an OCI layout when needed.
func (l *Layout) Repository(_ context.Context, name string) (oras.Target, error) {
	repository, err := openLayout(l.index, name)
	if err != nil {
		return nil, fmt.Errorf("open OCI layout %s: %w", l.path, err)
	}
	return repository, nil
}

// Reading opens a repository for reading; a folder that is no OCI layout is an error and stays as it is.
func (l *Layout) Reading(ctx context.Context, name string) (oras.ReadOnlyTarget, error) {
	info, err := os.Stat(l.path)
	if err != nil {
		return nil, fmt.Errorf("open OCI layout: %w", err)
	}
	if info.IsDir() {
		if err := readable(l.path); err != nil {
			return nil, fmt.Errorf("open OCI layout %s: %w", l.path, err)
		}
		return folderReader{oci.NewStorageFromFS(os.DirFS(filepath.Clean(l.path))), l.index, name}, nil
	}
	store, err := oci.NewFromTar(ctx, l.path)
	if err != nil {
		return nil, fmt.Errorf("open OCI layout %s: %w", l.path, err)
	}
	return readOnlyLayout{store, name}, nil
}

// Repositories lists those of a folder that have a tag.
func (l *Layout) Repositories() ([]string, error) {
	data, err := os.ReadFile(filepath.Join(l.path, ocispec.ImageIndexFile))
	if err != nil {
		return nil, err
	}
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, fmt.Errorf("index of OCI layout %s: %w", l.path, err)
	}
	var names []string
	for _, entry := range index.Manifests {
		name, _, tagged := strings.Cut(entry.Annotations[ocispec.AnnotationRefName], ":")
		if tagged && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// A layout has one name space for references, so that of a repository's tag is "<repository>:<tag>".
func layoutReference(repository, reference string) string {
	if strings.Contains(reference, ":") {
		return reference // a digest
	}
	return repository + ":" + reference
}

type readOnlyLayout struct {
	oras.ReadOnlyTarget
	name string
}

func (l readOnlyLayout) Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error) {
	return l.ReadOnlyTarget.Resolve(ctx, layoutReference(l.name, reference))
}

// Tags lists the tags of the repository, at once.
func (l readOnlyLayout) Tags(ctx context.Context, _ string, fn func(tags []string) error) error {
	all, ok := l.ReadOnlyTarget.(registry.TagLister)
	if !ok {
		return fmt.Errorf("%T does not list tags", l.ReadOnlyTarget)
	}
	var own []string
	err := all.Tags(ctx, "", func(names []string) error {
		for _, name := range names {
			if tag, ok := strings.CutPrefix(name, l.name+":"); ok {
				own = append(own, tag)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return fn(own)
}

// Tags lists the tags of a repository, none for one that is not there.
func Tags(ctx context.Context, repository oras.ReadOnlyTarget) ([]string, error) {
	lister, ok := repository.(registry.TagLister)
	if !ok {
		return nil, fmt.Errorf("%T does not list tags", repository)
	}
	tags, err := registry.Tags(ctx, lister)
	if err = NotFound(err); errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return tags, err
}

// layoutRepository writes one repository of a folder that other processes may read and write meanwhile, and that may be
// cut off from power at any moment:
//   - a blob is there once its file has the bytes that its digest names; one that was never written to its end, or damaged since, is written again;
//   - index.json is replaced as a whole, under a lock on the folder, by what it says at that moment and the change, or a batch of them;
//   - a manifest without a tag, or whose tag moves on, is in the index without a name, as oras keeps it.
type layoutRepository struct {
	*oci.Storage
	dir   string
	name  string
	index *layoutIndex
}

func openLayout(index *layoutIndex, name string) (layoutRepository, error) {
	storage, err := oci.NewStorage(index.dir)
	if err != nil {
		return layoutRepository{}, err
	}
	l := layoutRepository{storage, index.dir, name, index}
	if err := os.MkdirAll(l.path(ocispec.ImageBlobsDir, "sha256"), 0o777); err != nil {
		return l, err
	}
	if err := l.ensureMarker(); err != nil {
		return l, err
	}
	return l, l.index.ensure()
}

// ensureMarker makes the file exist that says that the folder is a layout. A damaged one is replaced: it can say one
// thing only.
func (l layoutRepository) ensureMarker() error {
	var marker ocispec.ImageLayout
	data, _, err := readRegular(l.path(ocispec.ImageLayoutFile), maxMarkerBytes)
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	case err == nil && json.Unmarshal(data, &marker) == nil && marker.Version == ocispec.ImageLayoutVersion:
		return nil
	case marker.Version != "" && marker.Version != ocispec.ImageLayoutVersion:
		return fmt.Errorf("%s: version %q, want %s: name another folder", ocispec.ImageLayoutFile, marker.Version, ocispec.ImageLayoutVersion)
	}
	if data, err = json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}); err != nil {
		return err
	}
	_, err = replaceFile(l.dir, ocispec.ImageLayoutFile, data)
	return err
}

func (l layoutRepository) path(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}

func (l layoutRepository) blob(d ocispec.Descriptor) string { return l.index.blobs.path(d.Digest) }

// Exists reports whether the blob is there with all its bytes.
func (l layoutRepository) Exists(_ context.Context, d ocispec.Descriptor) (bool, error) {
	return l.index.blobs.has(d)
}

// Push writes a blob. What earlier attempts left of it is removed.
func (l layoutRepository) Push(ctx context.Context, d ocispec.Descriptor, content io.Reader) error {
	there, damaged, err := l.index.blobs.look(d)
	if err != nil {
		return err
	}
	if there {
		return fmt.Errorf("%s: %w", d.Digest, errdef.ErrAlreadyExists)
	}
	if damaged != nil {
		if err := l.index.blobs.remove(d.Digest, damaged); err != nil {
			return err
		}
	}
	abandoned, err := l.abandoned(d)
	if err != nil {
		return err
	}
	for _, path := range abandoned {
		if err := ignoreMissing(os.Remove(path)); err != nil {
			return err
		}
	}
	if err := l.Storage.Push(ctx, d, content); err != nil {
		return err
	}
	if err := l.index.blobs.written(d.Digest); err != nil || d.MediaType != ocispec.MediaTypeImageManifest && d.MediaType != ocispec.MediaTypeImageIndex {
		return err
	}
	return l.index.change(indexChange{manifest: d})
}

// abandonedAfter is how long nothing was written to a part of a blob before it counts as left behind by somebody who
// was killed.
const abandonedAfter = time.Hour

func (l layoutRepository) abandoned(d ocispec.Descriptor) ([]string, error) {
	parts, err := filepath.Glob(l.path("ingest", d.Digest.Encoded()+"_*"))
	return slices.DeleteFunc(parts, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || time.Since(info.ModTime()) < abandonedAfter
	}), err
}

// Resolve finds a tag of the repository, or a digest that the index lists. A manifest whose file is missing or damaged
// is not found, so that it is written again. One that cannot be read is an error: nobody knows that it is not there.
func (l layoutRepository) Resolve(_ context.Context, reference string) (ocispec.Descriptor, error) {
	name := layoutReference(l.name, reference)
	d, found, err := l.index.resolve(name, reference)
	if err != nil {
		return d, err
	}
	if !found {
		return d, fmt.Errorf("%s: %w", name, errdef.ErrNotFound)
	}
	there, err := l.index.blobs.has(d)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("%s lists %q as %s: %w", l.index.path(), d.Digest, name, err)
	}
	if !there {
		return ocispec.Descriptor{}, fmt.Errorf("%s: %s is listed, and its file %s is missing or damaged: %w", name, d.Digest, l.blob(d), errdef.ErrNotFound)
	}
	return d, nil
}

// Tag names a manifest that is there.
func (l layoutRepository) Tag(ctx context.Context, d ocispec.Descriptor, reference string) error {
	there, err := l.Exists(ctx, d)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("%s: %w", d.Digest, errdef.ErrNotFound)
	}
	c := indexChange{manifest: d, name: layoutReference(l.name, reference)}
	before, found, err := l.index.resolve(c.name, reference)
	if err != nil {
		return err
	}
	if !found {
		return l.index.change(c)
	}
	whole, damaged, err := l.index.blobs.look(before)
	if err != nil || whole {
		return errors.Join(err, l.index.change(c)) // that what was there cannot be read is worth an error, and no reason to keep it
	}
	c.lost = before.Digest
	if err := l.index.change(c); err != nil || damaged == nil {
		return err
	}
	return l.index.blobs.remove(before.Digest, damaged)
}
