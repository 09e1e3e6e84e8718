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

// ErrNotFound means that a reference does not exist.
var ErrNotFound = errdef.ErrNotFound

// NotFound wraps ErrNotFound into an error of a 404 response. Other errors stay unchanged.
func NotFound(err error) error {
	if err == nil {
		return nil
	}
	return notFound(err, err)
}

func notFound(wrapped, cause error) error {
	var response *errcode.ErrorResponse
	if errors.Is(cause, errdef.ErrNotFound) || errors.As(cause, &response) &&
		response.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %w", ErrNotFound, wrapped)
	}
	return wrapped
}

// Unavailable reports whether an error means that the registry is unreachable, overloaded or broken. It returns false
// if the registry denied only one request, and for refused content.
func Unavailable(err error) bool {
	if refusal.Of(err) != nil || errors.As(err, new(*RedirectError)) {
		return false
	}
	var response *errcode.ErrorResponse
	if errors.As(err, &response) {
		return response.StatusCode >= http.StatusInternalServerError ||
			response.StatusCode == http.StatusTooManyRequests
	}
	if errors.As(err, new(*PausedError)) {
		return true
	}
	var connection interface{ Timeout() bool } // errors of the packages net and net/url implement Timeout
	return errors.As(err, &connection)
}

// Ping returns an error if the registry of a store is unavailable; see Unavailable. Other stores are always available.
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

// WithoutDetail reduces the error of a registry's response to its status. The full text would change with every
// request, because registries add times and request IDs.
func WithoutDetail(err error) error {
	var response *errcode.ErrorResponse
	if errors.As(err, &response) {
		return fmt.Errorf("the registry returned %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	var paused *PausedError
	if errors.As(err, &paused) {
		return fmt.Errorf("the registry returned %d %s", paused.Status, http.StatusText(paused.Status))
	}
	return err
}
