package airgap

import (
	"bytes"
	"context"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Limits for one container image. Export and import apply the same limits.
const (
	// MaxImageManifestBytes limits the size of one manifest or index. Registries have the same limit.
	MaxImageManifestBytes = 4 << 20
	// MaxImageDepth limits the levels in an image: two indexes, a manifest and its blobs.
	MaxImageDepth = 4
	// MaxImageBlobs limits the number of blobs in an image, including its manifests.
	MaxImageBlobs = 10_000
	// MaxImageManifestsBytes limits the total size of an image's manifests, which an export stores in memory.
	MaxImageManifestsBytes = 64 << 20
)

const (
	mediaTypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	mediaTypeDockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// IsImageIndex reports whether a media type denotes an index, which lists an image's manifests for each platform.
func IsImageIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == mediaTypeDockerIndex
}

func isManifest(mediaType string) bool {
	return IsImageIndex(mediaType) || mediaType == ocispec.MediaTypeImageManifest ||
		mediaType == mediaTypeDockerManifest
}

// ImageWalk visits all blobs in an image: indexes, manifests, configs and layers. It visits a blob once, even if
// several manifests list it.
type ImageWalk struct {
	// Locate returns the fetcher for a blob. If it returns nil, Walk skips the blob and all blobs that the blob refers
	// to.
	Locate func(context.Context, ocispec.Descriptor) (store.Fetcher, error)
	// Found is called for every blob, and for a manifest after all blobs that the manifest lists. Registries accept
	// blobs in this order. manifest contains the bytes of a manifest or index. For other blobs, it is nil.
	Found func(d ocispec.Descriptor, manifest []byte)

	visited        map[imageBlob]bool
	manifestsBytes int64
}

type imageBlob struct {
	mediaType string
	digest    digest.Digest
	sizeBytes int64
}

// Walk visits an image's manifest or index and all blobs below it. The error is a *refusal.Error if the image exceeds
// the limits or if a manifest does not match its digest.
func (w *ImageWalk) Walk(ctx context.Context, image ocispec.Descriptor) error {
	w.visited, w.manifestsBytes = map[imageBlob]bool{}, 0
	return w.visit(ctx, image, 1)
}

func (w *ImageWalk) visit(ctx context.Context, d ocispec.Descriptor, depth int) error {
	blob := imageBlob{d.MediaType, d.Digest, d.Size}
	if w.visited[blob] {
		return nil
	}
	w.visited[blob] = true
	if depth > MaxImageDepth || len(w.visited) > MaxImageBlobs {
		return refusal.New(refusal.TooLarge, "image has more than %d levels or %d blobs", MaxImageDepth,
			MaxImageBlobs)
	}
	d = ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}
	from, err := w.Locate(ctx, d)
	if err != nil || from == nil {
		return err
	}
	if !isManifest(d.MediaType) {
		w.Found(d, nil)
		return nil
	}
	if w.manifestsBytes += d.Size; d.Size > MaxImageManifestsBytes || w.manifestsBytes > MaxImageManifestsBytes {
		return refusal.New(refusal.TooLarge, "image has manifests of more than %d MiB in total",
			MaxImageManifestsBytes>>20)
	}
	data, err := store.FetchBlob(ctx, from, d, MaxImageManifestBytes)
	if err != nil {
		return err
	}
	below, err := store.Successors(ctx, newFetcher(data), d)
	if err != nil {
		return refusal.New(refusal.Malformed, "manifest %s: %w", d.Digest, err)
	}
	for _, next := range below {
		if err := w.visit(ctx, next, depth+1); err != nil {
			return err
		}
	}
	w.Found(d, data)
	return nil
}

func newFetcher(data []byte) store.Fetcher {
	return store.FetcherFunc(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	})
}
