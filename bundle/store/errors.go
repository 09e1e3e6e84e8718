package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// ErrNotFound says that there is nothing at a reference. It is not an empty bundle: nothing follows from it.
var ErrNotFound = errdef.ErrNotFound

// NotFound returns an error of a registry, wrapping ErrNotFound when it says that something is not there.
func NotFound(err error) error {
	if err == nil {
		return nil
	}
	return notFound(err, err)
}

func notFound(wrapped, cause error) error {
	var response *errcode.ErrorResponse
	if errors.Is(cause, errdef.ErrNotFound) || errors.As(cause, &response) && response.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %w", ErrNotFound, wrapped)
	}
	return wrapped
}

// Unavailable reports whether an error says that the registry as a whole cannot be used now: it cannot be reached, is
// overloaded or broken. An answer to one request, such as a missing right, and content that was refused say nothing
// about the registry.
func Unavailable(err error) bool {
	if refusal.Of(err) != nil || errors.As(err, new(*RedirectError)) {
		return false
	}
	var response *errcode.ErrorResponse
	if errors.As(err, &response) {
		return response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests
	}
	if errors.As(err, new(*PausedError)) {
		return true
	}
	var connection interface{ Timeout() bool } // what net and url errors have in common
	return errors.As(err, &connection)
}

// Ping returns an error when the registry of a store as a whole cannot be used now; other stores are always there. It
// asks for nothing that needs a right: a registry that refuses is there.
func Ping(ctx context.Context, s Store) error {
	registry, ok := s.(*Registry)
	if !ok {
		return nil
	}
	whole, err := registry.whole()
	if err != nil {
		return err
	}
	if err := whole.Ping(ctx); Unavailable(err) {
		return err
	}
	return nil
}

// whole returns the registry that the store is in.
func (r *Registry) whole() (*remote.Registry, error) {
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

// WithoutDetail returns the same error for the same answer of a registry. Registries put times and request numbers into
// theirs, and a condition with one of them would be written again at every pass.
func WithoutDetail(err error) error {
	var response *errcode.ErrorResponse
	if errors.As(err, &response) {
		return fmt.Errorf("the registry answers %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	var paused *PausedError
	if errors.As(err, &paused) {
		return fmt.Errorf("the registry answers %d %s", paused.Status, http.StatusText(paused.Status))
	}
	return err
}
