package component

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
)

// Inline gives a component version whose descriptor is known, as ModuleTemplates have it. Its local blobs are looked for in the
// configured sources and then in the repository that its last context names.
func (r *Reader) Inline(ctx context.Context, d ocm.Descriptor) (Component, error) {
	document, err := d.Document()
	if err != nil {
		return Component{}, err
	}
	c := Component{Descriptor: d, given: true}
	switch there, err := r.lookup(ctx, d.Name, d.Version); {
	case err == nil:
		c.Manifest, c.Repository, c.source, c.root = there.Manifest, there.Repository, there.source, there.root
	case ctx.Err() != nil:
		return Component{}, ctx.Err()
	}
	of := digest.FromBytes(document)
	return c, r.judge(ctx, "inline "+d.Name+":"+d.Version+" "+of.String(), of, c)
}

// blobOf finds a blob of a component whose descriptor was given. It gives the repository to read from, and its name when runtimes
// can read there too.
func (r *Reader) blobOf(ctx context.Context, c Component, d digest.Digest) (ocispec.Descriptor, oras.ReadOnlyTarget, string, error) {
	sources := r.Sources
	if context, ok := lastContext(c.Descriptor); ok && !r.internal(context.host(), nil) {
		context.Registries = r.Registries
		sources = append(sources[:len(sources):len(sources)], context)
	}
	for _, source := range sources {
		repository, err := r.open(source, c.Descriptor.Name)
		if err != nil {
			return ocispec.Descriptor{}, nil, "", err
		}
		name := source.Repository(c.Descriptor.Name)
		if name == "" {
			continue // an archive has a component whole, with a descriptor of its own, or not at all
		}
		opened, err := r.Registries.Repository(name)
		if err != nil {
			return ocispec.Descriptor{}, nil, "", err
		}
		found, err := size(ctx, opened, d)
		if errors.Is(err, bundle.ErrNotFound) {
			continue
		}
		return found, repository, name, err
	}
	return ocispec.Descriptor{}, nil, "", fmt.Errorf("access.localReference: %s is neither in %s nor in its repository context", d, sourceNames(r.Sources))
}

func size(ctx context.Context, repository *remote.Repository, d digest.Digest) (ocispec.Descriptor, error) {
	found, err := repository.Blobs().Resolve(ctx, d.String())
	return found, bundle.NotFound(err)
}

// lastContext is the repository that the component is in now, by its own word.
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

// remote opens a repository that a descriptor names. What a descriptor says is foreign: it must not send the publisher to
// addresses of its own network that nobody configured.
func (r *Reader) remote(name string, place *bundle.Place) (oras.ReadOnlyTarget, error) {
	host, _, _ := strings.Cut(name, "/")
	if r.internal(host, place) {
		return nil, fmt.Errorf("access: %s is an address of this network: name that registry with --components to allow it", host)
	}
	repository, err := r.Registries.Repository(name)
	if err != nil {
		return nil, err
	}
	if r.Cached != nil {
		return r.Cached(repository), nil
	}
	return repository, nil
}

// internal tells whether a host is an address of this machine or network that is not one of the configured ones.
func (r *Reader) internal(hostPort string, place *bundle.Place) bool {
	for _, s := range r.Sources {
		if configured, ok := s.(Registry); ok && configured.host() == hostPort {
			return false
		}
	}
	if place != nil && strings.HasPrefix(place.String(), hostPort+"/") {
		return false
	}
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = hostPort
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsUnspecified())
}
