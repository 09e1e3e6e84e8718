package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// What a repository can do is said in oras' own interfaces, so that what oras copies it copies from and to every store.
// They have names here, so that their users depend on this package alone.
type (
	// Reader is a repository that can be read.
	Reader = oras.ReadOnlyTarget
	// ReadWriter is a repository that can be read and written.
	ReadWriter = oras.Target
	// Fetcher reads blobs and manifests by their descriptors.
	Fetcher = content.Fetcher
	// FetcherFunc is a function as a Fetcher.
	FetcherFunc = content.FetcherFunc
)

// Successors returns what a manifest or index names, without an error for what is neither.
func Successors(ctx context.Context, from Fetcher, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	return content.Successors(ctx, from, d)
}

// PushStream writes what a body has unless it is there already.
func PushStream(ctx context.Context, to ReadWriter, d ocispec.Descriptor, body io.Reader) error {
	if err := to.Push(ctx, d, body); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return fmt.Errorf("push %s: %w", d.Digest, err)
	}
	return nil
}

// Answered returns the status of an answer that became an error; a client that has no credentials to show counts as
// refused.
func Answered(err error) (status int, ok bool) {
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

// AnsweredBy returns the host of the registry whose answer became an error, empty where it is not known.
func AnsweredBy(err error) string {
	var response *errcode.ErrorResponse
	if errors.As(err, &response) && response.URL != nil {
		return response.URL.Host
	}
	return ""
}
