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

// These aliases keep the users of this package independent of oras.
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

// Successors returns the descriptors in a manifest or index, or none for other blobs.
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
