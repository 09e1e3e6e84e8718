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

// LayoutScheme is the prefix of a store location that is an OCI layout in a folder or tar file.
const LayoutScheme = "oci-layout:"

// Layout stores repositories in an OCI image layout. The layout is a folder or a tar file. A tar file is read-only.
type Layout struct {
	path  string
	index *layoutIndex
}

// NewLayout returns the layout at a path. It does not perform I/O.
func NewLayout(path string) *Layout { return &Layout{path, newLayoutIndex(path)} }

// String returns oci-layout:PATH.
func (l *Layout) String() string { return LayoutScheme + l.path }

// Name returns ./REPOSITORY, the format of a layout's repository in bundle.Content.
func (l *Layout) Name(repository string) string { return "./" + repository }

// Holds reports whether a repository belongs to the layout.
func (l *Layout) Holds(repository string) bool { return strings.HasPrefix(repository, "./") }

// Repository opens a repository for reading and writing. If the OCI layout does not exist, Repository creates it.
func (l *Layout) Repository(_ context.Context, name string) (oras.Target, error) {
	repository, err := openLayout(l.index, name)
	if err != nil {
		return nil, fmt.Errorf("open OCI layout %s: %w", l.path, err)
	}
	return repository, nil
}

// Reading opens a repository for reading. It returns an error if the folder is not an OCI layout.
func (l *Layout) Reading(ctx context.Context, name string) (oras.ReadOnlyTarget, error) {
	info, err := os.Stat(l.path)
	if err != nil {
		return nil, fmt.Errorf("open OCI layout: %w", err)
	}
	if info.IsDir() {
		if err := checkReadable(l.path); err != nil {
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

// Repositories returns the names of the repositories that have at least one tag.
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

type readOnlyLayout struct {
	oras.ReadOnlyTarget
	name string
}

func (l readOnlyLayout) Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error) {
	return l.ReadOnlyTarget.Resolve(ctx, layoutReference(l.name, reference))
}

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

// Tags returns a repository's tags. The list is empty if the repository does not exist.
func Tags(ctx context.Context, repository oras.ReadOnlyTarget) ([]string, error) {
	lister, ok := repository.(registry.TagLister)
	if !ok {
		return nil, fmt.Errorf("%T does not list tags", repository)
	}
	var tags names
	err := lister.Tags(ctx, "", func(page []string) error {
		return tags.add(page, func(tag string) (string, bool) { return tag, true })
	})
	if err = NotFound(err); errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return tags.all, nil
}

// layoutRepository writes to one repository of an OCI layout. The layout stays consistent if other processes write to
// the same folder or the power fails:
//   - A blob exists only if the bytes in its file match its digest.
//   - Each change replaces the whole index.json while holding a lock on the folder.
//   - A manifest that loses its tag stays in the index without a name, as in oras.
type layoutRepository struct {
	*oci.Storage
	dir   string
	name  string
	index *layoutIndex
}

func openLayout(index *layoutIndex, name string) (layoutRepository, error) {
	if err := checkNewLayout(index.dir); err != nil {
		return layoutRepository{}, err
	}
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

// ensureMarker creates or repairs the file oci-layout. The file has only one valid content, so a damaged file can be
// replaced.
func (l layoutRepository) ensureMarker() error {
	var marker ocispec.ImageLayout
	data, _, err := readRegular(l.path(ocispec.ImageLayoutFile), maxMarkerBytes)
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	case err == nil && json.Unmarshal(data, &marker) == nil && marker.Version == ocispec.ImageLayoutVersion:
		return nil
	case marker.Version != "" && marker.Version != ocispec.ImageLayoutVersion:
		return fmt.Errorf("%s: version %q, must be %s: choose another folder", ocispec.ImageLayoutFile, marker.Version,
			ocispec.ImageLayoutVersion)
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

func (l layoutRepository) Exists(_ context.Context, d ocispec.Descriptor) (bool, error) {
	return l.index.blobs.has(d)
}

// Push writes a blob. If the blob's file exists but is damaged, Push replaces the file. It also removes partial files
// that interrupted processes left behind.
func (l layoutRepository) Push(ctx context.Context, d ocispec.Descriptor, content io.Reader) error {
	there, damaged, err := l.index.blobs.inspect(d)
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
	abandoned, err := l.findAbandoned(d)
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
	if err := l.index.blobs.markComplete(d.Digest); err != nil || d.MediaType != ocispec.MediaTypeImageManifest &&
		d.MediaType != ocispec.MediaTypeImageIndex {
		return err
	}
	return l.index.change(indexChange{manifest: d})
}

// abandonedAfter is the time since the last write after which a partial file is removed.
const abandonedAfter = time.Hour

func (l layoutRepository) findAbandoned(d ocispec.Descriptor) ([]string, error) {
	parts, err := filepath.Glob(l.path("ingest", d.Digest.Encoded()+"_*"))
	return slices.DeleteFunc(parts, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || time.Since(info.ModTime()) < abandonedAfter
	}), err
}

// Resolve returns the descriptor for a tag, or for a digest in index.json. The error wraps ErrNotFound if the
// manifest's file is missing or damaged.
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
		return ocispec.Descriptor{},
			fmt.Errorf("%s: %s is listed, but its file %s is missing or damaged: %w", name, d.Digest, l.blob(d),
				errdef.ErrNotFound)
	}
	return d, nil
}

// Tag sets a tag to a manifest that exists in the layout. If the tag exists, Tag moves it.
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
	whole, damaged, err := l.index.blobs.inspect(before)
	if err != nil || whole {
		return errors.Join(err, l.index.change(c)) // move the tag even if the old manifest cannot be read
	}
	c.lost = before.Digest
	if err := l.index.change(c); err != nil || damaged == nil {
		return err
	}
	return l.index.blobs.remove(before.Digest, damaged)
}

// Batch makes a Layout write several changes to its index together. Readers that use the same Layout see each change
// immediately. Other processes see the changes after a call to flush, or once enough changes are pending. Batch has no
// effect on other stores.
func Batch(s Store) (flush func() error) {
	l, layout := s.(*Layout)
	if !layout {
		return func() error { return nil }
	}
	l.index.mu.Lock()
	defer l.index.mu.Unlock()
	l.index.batch = true
	return l.index.flush
}
