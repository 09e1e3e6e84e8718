package store

import (
	"context"
	"errors"
	"fmt"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// Aliases of oras types. Callers of this package do not need to import oras.
type (
	// Reader is a repository that can be read.
	Reader = oras.ReadOnlyTarget
	// ReadWriter is a repository that can be read and written.
	ReadWriter = oras.Target
	// Fetcher reads blobs and manifests by descriptor.
	Fetcher = content.Fetcher
	// FetcherFunc is a function that implements Fetcher.
	FetcherFunc = content.FetcherFunc
)

// Successors returns the descriptors that a manifest or index contains. For other blobs, it returns nothing.
func Successors(ctx context.Context, from Fetcher, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	return content.Successors(ctx, from, d)
}

// PushStream writes a blob from a stream unless the blob exists.
func PushStream(ctx context.Context, to ReadWriter, d ocispec.Descriptor, body io.Reader) error {
	if err := to.Push(ctx, d, body); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return fmt.Errorf("push %s: %w", d.Digest, err)
	}
	return nil
}
