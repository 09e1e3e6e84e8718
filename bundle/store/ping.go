package store

import (
	"context"

	"oras.land/oras-go/v2/registry/remote"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Ping returns an error if the registry is unavailable, as defined by IsUnavailable. Stores other than registries are
// always available.
func Ping(ctx context.Context, s Store) error {
	registry, ok := s.(*Registry)
	if !ok {
		return nil
	}
	whole, err := registry.openRegistry()
	if err != nil {
		return err
	}
	if err := whole.Ping(ctx); IsUnavailable(err) {
		return err
	}
	return nil
}

func (r *Registry) openRegistry() (*remote.Registry, error) {
	repository, err := r.registries.Repository(r.Name(bundle.TrustRepository))
	if err != nil {
		return nil, err
	}
	whole, err := remote.NewRegistry(repository.Reference.Registry)
	if err != nil {
		return nil, err
	}
	whole.Client, whole.PlainHTTP = repository.Client, repository.PlainHTTP
	return whole, nil
}
