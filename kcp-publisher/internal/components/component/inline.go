package component

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Inline returns the component version for a descriptor in a ModuleTemplate. The component's local blobs are in one of
// the configured sources or in the repository that the descriptor names.
func (r *Reader) Inline(ctx context.Context, d ocm.Descriptor) (Component, error) {
	document, err := d.Document()
	if err != nil {
		return Component{}, err
	}
	of := digest.FromBytes(document)
	c := Component{Descriptor: d, inline: true, id: of}
	switch there, err := r.lookup(ctx, d.Name, d.Version); {
	case err == nil:
		c.Manifest, c.Repository, c.source, c.root = there.Manifest, there.Repository, there.source, there.root
	case ctx.Err() != nil:
		return Component{}, ctx.Err()
	}
	return c, r.checkCached(ctx, "inline "+d.Name+":"+d.Version+" "+of.String(), of, c)
}

// findBlob finds an inline descriptor's local blob. It returns the blob's OCI descriptor, the repository that contains
// the blob, and the repository's name.
func (r *Reader) findBlob(
	ctx context.Context, c Component, d digest.Digest,
) (ocispec.Descriptor, oras.ReadOnlyTarget, string, error) {
	for _, source := range r.Sources {
		name := source.Repository(c.Descriptor.Name)
		if name == "" {
			continue // skip archives, in which each component has its own descriptor
		}
		reading, err := r.open(source, c.Descriptor.Name)
		if err != nil {
			return ocispec.Descriptor{}, nil, "", err
		}
		repository, err := r.Registries.Repository(name)
		if err != nil {
			return ocispec.Descriptor{}, nil, "", err
		}
		found, err := size(ctx, repository, d)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		return found, reading, name, err
	}
	if last, ok := lastContext(c.Descriptor); ok && !r.isInternal(last.host(), nil) {
		name := last.Repository(c.Descriptor.Name)
		reading, repository, err := r.openForeign(name, nil)
		if err != nil {
			return ocispec.Descriptor{}, nil, "", err
		}
		found, err := size(ctx, repository, d)
		if !errors.Is(err, store.ErrNotFound) {
			return found, reading, name, err
		}
	}
	return ocispec.Descriptor{}, nil, "",
		fmt.Errorf("access.localReference: %s was not found in %s or in its repository context", d,
			sourceNames(r.Sources))
}

func size(ctx context.Context, repository *remote.Repository, d digest.Digest) (ocispec.Descriptor, error) {
	found, err := repository.Blobs().Resolve(ctx, d.String())
	return found, store.NotFound(err)
}

func lastContext(d ocm.Descriptor) (Registry, bool) {
	if len(d.RepositoryContexts) == 0 {
		return Registry{}, false
	}
	last := d.RepositoryContexts[len(d.RepositoryContexts)-1]
	if kind, _, _ := strings.Cut(last.Type, "/"); !strings.EqualFold(kind, "OCIRegistry") {
		return Registry{}, false
	}
	prefix := strings.Trim(last.BaseURL, "/")
	if _, after, ok := strings.Cut(prefix, "://"); ok {
		prefix = after
	}
	if last.SubPath != "" {
		prefix += "/" + strings.Trim(last.SubPath, "/")
	}
	return Registry{Prefix: prefix, Mapping: Mapping(last.ComponentNameMapping)}, prefix != ""
}
