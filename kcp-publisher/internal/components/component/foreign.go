package component

import (
	"fmt"
	"slices"
	"strings"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// foreign opens a repository that a descriptor names, for reading. A descriptor is untrusted: neither it nor its
// registry can lead the publisher to addresses of its own network that are not configured.
func (r *Reader) foreign(name string, place store.Store) (oras.ReadOnlyTarget, *remote.Repository, error) {
	host, _, _ := strings.Cut(name, "/")
	if r.internal(host, place) {
		return nil, nil,
			fmt.Errorf("access: %s is an address of this network: name that registry with --components to allow it",
				host)
	}
	open := r.Registries.Foreign
	if r.configured(host, place) {
		open = r.Registries.Repository
	}
	repository, err := open(name)
	if err != nil {
		return nil, nil, err
	}
	if r.Cached != nil {
		return r.Cached(repository), repository, nil
	}
	return repository, repository, nil
}

// configured reports whether a host belongs to a source or to the place.
func (r *Reader) configured(hostPort string, place store.Store) bool {
	if place != nil && strings.HasPrefix(place.String(), hostPort+"/") {
		return true
	}
	return slices.ContainsFunc(r.Sources, func(s Source) bool {
		registry, ok := s.(Registry)
		return ok && registry.host() == hostPort
	})
}

// internal reports whether a host belongs to this machine or network, by its name or address, and is not a configured
// one. The dialer refuses a public name that resolves to an address of this machine. A company's registries can have
// private addresses.
func (r *Reader) internal(hostPort string, place store.Store) bool {
	return !r.configured(hostPort, place) && store.IsInternalHost(hostPort)
}
