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

	"github.com/gofrs/flock"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
)

// LayoutScheme starts a location that is a folder instead of a registry.
const LayoutScheme = "oci-layout:"

// Layout keeps repositories in an OCI image layout: a folder, or for reading also a tar file.
type Layout struct{ path string }

// NewLayout returns the layout at a path. It does no I/O.
func NewLayout(path string) *Layout { return &Layout{path} }

// String returns oci-layout:PATH.
func (l *Layout) String() string { return LayoutScheme + l.path }

// Name returns ./repository.
func (l *Layout) Name(repository string) string { return "./" + repository }

// Holds reports whether a repository is one of the layout.
func (l *Layout) Holds(repository string) bool { return strings.HasPrefix(repository, "./") }

// Repository opens a repository for reading and writing. A folder becomes an OCI layout when needed.
func (l *Layout) Repository(_ context.Context, name string) (oras.Target, error) {
	repository, err := openLayout(l.path, name)
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
	var store oras.ReadOnlyTarget
	if info.IsDir() {
		store, err = oci.NewFromFS(ctx, os.DirFS(filepath.Clean(l.path)))
	} else {
		store, err = oci.NewFromTar(ctx, l.path)
	}
	if err != nil {
		return nil, fmt.Errorf("open OCI layout %s: %w", l.path, err)
	}
	return readOnlyLayout{ReadOnlyTarget: store, name: name}, nil
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

// layoutRepository writes one repository of a folder that other processes may read and write meanwhile, and that may be cut off from
// power at any moment:
//   - a blob has its name once all of it is on the disk; one that has its name and another size was never written to its end;
//   - index.json is replaced as a whole, under a lock on the folder, by what it says at that moment and the one change;
//   - a manifest without a tag, or whose tag moves on, is in the index without a name, as oras keeps it.
type layoutRepository struct {
	*oci.Storage
	dir  string
	name string
}

func openLayout(dir, name string) (layoutRepository, error) {
	storage, err := oci.NewStorage(dir)
	if err != nil {
		return layoutRepository{}, err
	}
	l := layoutRepository{storage, dir, name}
	if err := os.MkdirAll(l.path(ocispec.ImageBlobsDir, "sha256"), 0o777); err != nil {
		return l, err
	}
	if _, err := os.Stat(l.path(ocispec.ImageLayoutFile)); errors.Is(err, os.ErrNotExist) {
		if err := l.replace(ocispec.ImageLayoutFile, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}); err != nil {
			return l, err
		}
	} else if err != nil {
		return l, err
	}
	if _, err := os.Stat(l.path(ocispec.ImageIndexFile)); !errors.Is(err, os.ErrNotExist) {
		return l, err
	}
	return l, l.change(func(index ocispec.Index) ocispec.Index { return index })
}

func (l layoutRepository) path(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}

func (l layoutRepository) blob(d ocispec.Descriptor) string {
	return l.path(ocispec.ImageBlobsDir, d.Digest.Algorithm().String(), d.Digest.Encoded())
}

// Exists reports whether the blob is there with all its bytes.
func (l layoutRepository) Exists(_ context.Context, d ocispec.Descriptor) (bool, error) {
	if err := d.Digest.Validate(); err != nil {
		return false, err
	}
	info, err := os.Stat(l.blob(d))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size() == d.Size, err
}

// Push writes a blob. What earlier attempts left of it is removed.
func (l layoutRepository) Push(ctx context.Context, d ocispec.Descriptor, content io.Reader) error {
	there, err := l.Exists(ctx, d)
	if err != nil {
		return err
	}
	if there {
		return fmt.Errorf("%s: %w", d.Digest, errdef.ErrAlreadyExists)
	}
	abandoned, err := l.abandoned(d)
	if err != nil {
		return err
	}
	for _, path := range append(abandoned, l.blob(d)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := l.Storage.Push(ctx, d, content); err != nil {
		return err
	}
	if err := synced(l.blob(d)); err != nil || d.MediaType != ocispec.MediaTypeImageManifest && d.MediaType != ocispec.MediaTypeImageIndex {
		return err
	}
	return l.change(func(index ocispec.Index) ocispec.Index { return listed(index, d) })
}

// listed returns the index with a manifest that nobody named: whoever asks for referrers finds only those that the index lists.
func listed(index ocispec.Index, d ocispec.Descriptor) ocispec.Index {
	if !slices.ContainsFunc(index.Manifests, func(m ocispec.Descriptor) bool { return m.Digest == d.Digest }) {
		index.Manifests = append(index.Manifests, unnamed(d))
	}
	return index
}

// abandonedAfter is how long nothing was written to a part of a blob before it counts as left behind by somebody who was killed.
const abandonedAfter = time.Hour

func (l layoutRepository) abandoned(d ocispec.Descriptor) ([]string, error) {
	parts, err := filepath.Glob(l.path("ingest", d.Digest.Encoded()+"_*"))
	return slices.DeleteFunc(parts, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || time.Since(info.ModTime()) < abandonedAfter
	}), err
}

func synced(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Resolve finds a tag of the repository, or a digest that the index lists.
func (l layoutRepository) Resolve(_ context.Context, reference string) (ocispec.Descriptor, error) {
	index, err := l.index()
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	name := layoutReference(l.name, reference)
	for _, d := range index.Manifests {
		if d.Annotations[ocispec.AnnotationRefName] == name || d.Digest.String() == reference {
			return unnamed(d), nil
		}
	}
	return ocispec.Descriptor{}, fmt.Errorf("%s: %w", name, errdef.ErrNotFound)
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
	return l.change(func(index ocispec.Index) ocispec.Index { return withTag(index, d, layoutReference(l.name, reference)) })
}

// withTag returns the index in which the name is the manifest's.
func withTag(index ocispec.Index, d ocispec.Descriptor, name string) ocispec.Index {
	var before *ocispec.Descriptor
	d = unnamed(d)
	manifests := slices.DeleteFunc(slices.Clone(index.Manifests), func(m ocispec.Descriptor) bool {
		if m.Annotations[ocispec.AnnotationRefName] == name {
			before = &m
			return true
		}
		return m.Digest == d.Digest && m.Annotations[ocispec.AnnotationRefName] == ""
	})
	if before != nil && before.Digest != d.Digest && !slices.ContainsFunc(manifests, func(m ocispec.Descriptor) bool { return m.Digest == before.Digest }) {
		manifests = append(manifests, unnamed(*before))
	}
	d.Annotations = map[string]string{ocispec.AnnotationRefName: name}
	index.Manifests = append(manifests, d)
	return index
}

func unnamed(d ocispec.Descriptor) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size, ArtifactType: d.ArtifactType, Platform: d.Platform}
}

func (l layoutRepository) index() (ocispec.Index, error) {
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	data, err := os.ReadFile(l.path(ocispec.ImageIndexFile))
	if errors.Is(err, os.ErrNotExist) {
		return index, nil
	}
	if err != nil {
		return index, err
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return index, fmt.Errorf("OCI layout %s: %s: %w", l.dir, ocispec.ImageIndexFile, err)
	}
	return index, nil
}

func (l layoutRepository) change(how func(ocispec.Index) ocispec.Index) error {
	lock := flock.New(l.dir, flock.SetFlag(os.O_RDONLY))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("lock OCI layout %s: %w", l.dir, err)
	}
	index, err := l.index()
	if err == nil {
		err = l.replace(ocispec.ImageIndexFile, how(index))
	}
	return errors.Join(err, lock.Unlock())
}

// replace lets a file of the layout be another one from one moment to the next.
func (l layoutRepository) replace(name string, document any) error {
	data, err := json.Marshal(document)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(l.dir, "."+name+"-*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Chmod(0o644), file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), l.path(name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
