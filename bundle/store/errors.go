package store

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// ErrNotFound means that a tag, manifest or blob does not exist.
var ErrNotFound = errdef.ErrNotFound

// NotFound returns an error that wraps ErrNotFound if err is a registry's 404 response. It returns other errors
// unchanged.
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

// IsUnavailable reports whether err means that the registry is unreachable, overloaded or broken. It returns false if
// the registry works but denied the request, and if the content was refused.
func IsUnavailable(err error) bool {
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
	var connection interface{ Timeout() bool } // errors from packages net and net/url have this method
	return errors.As(err, &connection)
}

// WithoutDetail replaces a registry's error response with an error that contains only the HTTP status. It returns other
// errors unchanged. Registries add times and request IDs to errors, so the full text would differ after each request.
func WithoutDetail(err error) error {
	if response := ResponseError(err); response != nil {
		return response
	}
	return err
}

// ResponseError returns a registry's HTTP status as an error. It returns nil if err does not contain a response.
func ResponseError(err error) error {
	var response *errcode.ErrorResponse
	if errors.As(err, &response) {
		return fmt.Errorf("the registry returned %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	var paused *PausedError
	if errors.As(err, &paused) {
		return fmt.Errorf("the registry returned %d %s", paused.Status, http.StatusText(paused.Status))
	}
	return nil
}

// PausedError means that a request was not sent, because the registry asked clients to wait (Retry-After).
type PausedError struct {
	// Host is the registry's host. Status is the HTTP status in the response with the Retry-After header. Until is the
	// time when requests are allowed again.
	Host   string
	Status int
	Until  time.Time
}

func (e *PausedError) Error() string {
	return fmt.Sprintf("%s returned %d %s and asked clients to wait until %s", e.Host, e.Status,
		http.StatusText(e.Status), e.Until.UTC().Format(time.RFC3339))
}

// StatusOf returns the HTTP status from the registry response in err. For missing credentials, it returns 401. For
// other errors, it returns false.
func StatusOf(err error) (status int, ok bool) {
	var response *errcode.ErrorResponse
	switch {
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return http.StatusUnauthorized, true
	case errors.As(err, &response):
		return response.StatusCode, true
	}
	var paused *PausedError
	if errors.As(err, &paused) {
		return paused.Status, true
	}
	return 0, false
}

// HostOf returns the host of the registry whose response caused err, or "" if err has another cause.
func HostOf(err error) string {
	var response *errcode.ErrorResponse
	if errors.As(err, &response) && response.URL != nil {
		return response.URL.Host
	}
	return ""
}
