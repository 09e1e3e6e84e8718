package component

import (
	"fmt"
	"slices"
	"strings"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// openForeign opens the repository that a component descriptor refers to. A descriptor can contain any address, so
// openForeign opens an address in the publisher's own network only if an operator configured it.
func (r *Reader) openForeign(name string, place store.Store) (oras.ReadOnlyTarget, *remote.Repository, error) {
	host, _, _ := strings.Cut(name, "/")
	if r.isInternal(host, place) {
		return nil, nil,
			fmt.Errorf("access: %s is an address in the publisher's network: add the registry to --components to "+
				"allow it", host)
	}
	open := r.Registries.Foreign
	if r.isConfigured(host, place) {
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

// isConfigured reports whether a host is a source's host or the runtimes' registry host.
func (r *Reader) isConfigured(hostPort string, place store.Store) bool {
	if place != nil && strings.HasPrefix(place.String(), hostPort+"/") {
		return true
	}
	return slices.ContainsFunc(r.Sources, func(s Source) bool {
		registry, ok := s.(Registry)
		return ok && registry.host() == hostPort
	})
}

// isInternal reports whether a host is not configured and is in this machine's network.
func (r *Reader) isInternal(hostPort string, place store.Store) bool {
	return !r.isConfigured(hostPort, place) && store.IsInternalHost(hostPort)
}
