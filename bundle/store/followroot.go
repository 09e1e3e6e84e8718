package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// RootReader returns the unverified content of a root of trust version and the digest of its manifest.
type RootReader func(ctx context.Context, version int64) ([]byte, digest.Digest, error)

// FollowRoot reads the versions after the given root of trust from a store. For the results, see FollowRootFrom.
func FollowRoot(
	ctx context.Context, place Store, root trust.Root,
) (newest trust.Root, refused *refusal.Error, at digest.Digest, err error) {
	return FollowRootFrom(ctx, func(ctx context.Context, version int64) ([]byte, digest.Digest, error) {
		return FetchRoot(ctx, place, version)
	}, root)
}

// FollowRootFrom reads the versions after the given root of trust in order, and returns the last valid version. If the
// next version is invalid, it also returns the reason (refused) and the digest of that version's manifest (at). An
// error means that the next version could not be read.
func FollowRootFrom(
	ctx context.Context, read RootReader, root trust.Root,
) (newest trust.Root, refused *refusal.Error, at digest.Digest, err error) {
	for range trust.MaxRootHops {
		data, found, err := read(ctx, root.Version+1)
		if errors.Is(err, ErrNotFound) {
			return root, nil, "", nil
		}
		var next trust.Root
		if err == nil {
			next, err = root.Next(data)
		}
		if refused := refusal.Of(err); refused != nil {
			return root, &refusal.Error{Reason: refusal.BadRoot, Detail: refused.Detail}, found, nil
		}
		if err != nil {
			return root, nil, "", fmt.Errorf("check for root of trust version %d: %w", root.Version+1, err)
		}
		root = next
	}
	return root, nil, "", nil
}

// HasRoot reports whether the store contains this root of trust version. It returns an error if the store contains a
// different root with the same version.
func HasRoot(ctx context.Context, place Store, root trust.Root) (bool, error) {
	manifest, layer, err := rootManifest(root)
	if err != nil {
		return false, err
	}
	repository, err := place.Repository(ctx, bundle.TrustRepository)
	if err != nil {
		return false, err
	}
	tag := bundle.RootTag(root.Version)
	switch there, err := Head(ctx, repository, tag); {
	case err == nil && there == manifest.Descriptor.Digest:
		return Has(ctx, repository, layer.Descriptor)
	case err == nil:
		return false,
			fmt.Errorf(
				"%s:%s is a different root of trust (%s) than the local one (%s): the published root was replaced, or "+
					"the local keys belong to another fleet", place.Name(bundle.TrustRepository), tag, there,
				manifest.Descriptor.Digest)
	case !errors.Is(err, ErrNotFound):
		return false, err
	}
	return false, nil
}

func rootManifest(root trust.Root) (manifest, layer bundle.Blob, err error) {
	layer = bundle.NewBlob(bundle.MediaTypeRoot, root.Raw)
	manifest, err = bundle.NewManifest(ocispec.Manifest{
		ArtifactType: bundle.ArtifactTypeRoot, Config: ocispec.DescriptorEmptyJSON,
		Layers: []ocispec.Descriptor{layer.Descriptor},
	})
	return manifest, layer, err
}

// PushRoot publishes a root of trust version unless the store already contains it. It returns an error if the store
// contains a different root with the same version.
func PushRoot(ctx context.Context, place Store, root trust.Root) error {
	if there, err := HasRoot(ctx, place, root); err != nil || there {
		return err
	}
	manifest, layer, err := rootManifest(root)
	if err != nil {
		return err
	}
	repository, err := place.Repository(ctx, bundle.TrustRepository)
	if err != nil {
		return err
	}
	for _, blob := range []bundle.Blob{bundle.EmptyBlob(), layer} {
		if err := PushBlob(ctx, repository, blob); err != nil {
			return err
		}
	}
	return PushManifest(ctx, repository, manifest, bundle.RootTag(root.Version))
}

// FetchRoot returns a root of trust version without verifying it, and its manifest's digest. The error wraps
// ErrNotFound if the version does not exist, and is a *refusal.Error if the artifact is not a root of trust.
func FetchRoot(ctx context.Context, place Store, version int64) ([]byte, digest.Digest, error) {
	repository, err := place.Reading(ctx, bundle.TrustRepository)
	if err != nil {
		return nil, "", err
	}
	return ReadRoot(ctx, repository, version)
}

// ReadRoot is like FetchRoot, but reads from a repository that the caller has opened.
func ReadRoot(ctx context.Context, repository oras.ReadOnlyTarget, version int64) ([]byte, digest.Digest, error) {
	newest, err := Head(ctx, repository, bundle.RootTag(version))
	if err != nil {
		return nil, "", err
	}
	fetched, err := Fetch(ctx, repository, newest.String())
	if err != nil {
		return nil, newest, err
	}
	manifest, refused := bundle.ReadManifest(fetched, bundle.ArtifactTypeRoot)
	if refused != nil {
		return nil, newest, refused
	}
	if len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != bundle.MediaTypeRoot ||
		manifest.Layers[0].Size > trust.MaxRootBytes {
		return nil, newest,
			refusal.New(refusal.BadRoot, "layers: must be exactly one of type %s with at most %d bytes",
				bundle.MediaTypeRoot, trust.MaxRootBytes)
	}
	data, err := FetchBlob(ctx, repository, manifest.Layers[0], trust.MaxRootBytes)
	return data, newest, err
}
