package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// Fetch reads the manifest for a tag or digest. The error wraps ErrNotFound if the manifest does not exist. If the
// manifest is too large, Fetch returns its descriptor without its bytes, and a *refusal.Error.
func Fetch(ctx context.Context, from oras.ReadOnlyTarget, reference string) (bundle.Fetched, error) {
	desc, body, err := open(ctx, from, reference)
	if err != nil {
		return bundle.Fetched{}, notFound(fmt.Errorf("fetch manifest %s: %w", reference, err), err)
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, bundle.MaxManifestBytes+1))
	if err != nil {
		return bundle.Fetched{}, fmt.Errorf("fetch manifest %s: %w", reference, err)
	}
	if len(data) > bundle.MaxManifestBytes {
		return bundle.Fetched{
			Descriptor: desc,
		}, refusal.New(refusal.TooLarge, "manifest is larger than %d bytes", bundle.MaxManifestBytes)
	}
	return bundle.Fetched{Descriptor: desc, Bytes: data}, nil
}

func open(ctx context.Context, from oras.ReadOnlyTarget, reference string) (ocispec.Descriptor, io.ReadCloser, error) {
	if r, ok := from.(registry.ReferenceFetcher); ok {
		return r.FetchReference(ctx, reference)
	}
	desc, err := from.Resolve(ctx, reference)
	if err != nil {
		return desc, nil, err
	}
	body, err := from.Fetch(ctx, desc)
	return desc, body, err
}

// Head returns the digest of a tag's manifest. The error wraps ErrNotFound if the tag does not exist.
func Head(ctx context.Context, from oras.ReadOnlyTarget, reference string) (digest.Digest, error) {
	desc, err := from.Resolve(ctx, reference)
	if err != nil {
		return "", notFound(fmt.Errorf("resolve %s: %w", reference, err), err)
	}
	return desc.Digest, nil
}

// FetchBlob reads one blob and checks its size and digest. The error is a *refusal.Error if they do not match.
func FetchBlob(ctx context.Context, from content.Fetcher, desc ocispec.Descriptor, limit int64) ([]byte, error) {
	if desc.Size < 0 || desc.Size > limit {
		return nil, refusal.New(refusal.TooLarge, "blob %s is %d bytes, must be at most %d", desc.Digest, desc.Size,
			limit)
	}
	if err := desc.Digest.Validate(); err != nil {
		return nil, refusal.New(refusal.WrongDigest, "blob %q: %w", desc.Digest, err)
	}
	body, err := from.Fetch(ctx, desc)
	if err != nil {
		return nil, notFound(fmt.Errorf("fetch blob %s: %w", desc.Digest, err), err)
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, desc.Size+1))
	if err != nil {
		return nil, fmt.Errorf("fetch blob %s: %w", desc.Digest, err)
	}
	if int64(len(data)) != desc.Size || desc.Digest.Algorithm().FromBytes(data) != desc.Digest {
		return nil,
			refusal.New(refusal.WrongDigest, "blob %s with %d bytes: the content has %d bytes and digest %s",
				desc.Digest, desc.Size, len(data), digest.FromBytes(data))
	}
	return data, nil
}

// FetchBundle fetches the DesiredState and the Catalog from a verified manifest and returns the complete bundle.
func FetchBundle(ctx context.Context, from content.Fetcher, verified bundle.Verified) (bundle.Bundle, error) {
	config, err := FetchBlob(ctx, from, verified.Config, bundle.MaxDocumentBytes)
	if err != nil {
		return bundle.Bundle{}, fmt.Errorf("config: %w", err)
	}
	catalog, err := FetchBlob(ctx, from, verified.Catalog, bundle.MaxDocumentBytes)
	if err != nil {
		return bundle.Bundle{}, fmt.Errorf("layers[0]: %w", err)
	}
	return verified.Open(config, catalog)
}

// PushBlob writes a blob unless it exists.
func PushBlob(ctx context.Context, to content.Pusher, blob bundle.Blob) error {
	err := retryRefused(func() error { return to.Push(ctx, blob.Descriptor, bytes.NewReader(blob.Bytes)) })
	if err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return fmt.Errorf("push blob %s: %w", blob.Descriptor.Digest, err)
	}
	return nil
}

// PushManifest writes a manifest and its tag. The manifest's blobs must already exist.
func PushManifest(ctx context.Context, to oras.Target, manifest bundle.Blob, tag string) error {
	if r, ok := to.(registry.ReferencePusher); ok {
		if err := r.PushReference(ctx, manifest.Descriptor, bytes.NewReader(manifest.Bytes), tag); err != nil {
			return fmt.Errorf("push manifest %s: %w", tag, err)
		}
		return nil
	}
	if err := PushBlob(ctx, to, manifest); err != nil {
		return err
	}
	if err := to.Tag(ctx, manifest.Descriptor, tag); err != nil {
		return fmt.Errorf("tag manifest %s: %w", tag, err)
	}
	return nil
}

// EnsureDocuments writes a bundle's documents to the DocumentsRepository, with a manifest that refers to them. Without
// this manifest, the registry's garbage collection could delete them. It reports whether the repository lacked a
// document or the manifest.
func EnsureDocuments(ctx context.Context, place Store, documents bundle.Documents) (missing bool, err error) {
	shared, err := place.Repository(ctx, bundle.DocumentsRepository)
	if err != nil {
		return false, err
	}
	holder, err := bundle.NewManifest(ocispec.Manifest{
		ArtifactType: bundle.ArtifactTypeContent, Config: ocispec.DescriptorEmptyJSON,
		Layers: []ocispec.Descriptor{documents.State.Descriptor, documents.Catalog.Descriptor},
	})
	if err != nil {
		return false, err
	}
	tag := "set-" + holder.Descriptor.Digest.Encoded()[:12]
	held, err := Head(ctx, shared, tag)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false, fmt.Errorf("push shared documents to %s: %w", place.Name(bundle.DocumentsRepository), err)
	}
	missing = held != holder.Descriptor.Digest
	for _, blob := range []bundle.Blob{bundle.EmptyBlob(), documents.State, documents.Catalog} {
		there, err := Has(ctx, shared, blob.Descriptor)
		if err == nil && !there {
			missing = true
			err = PushBlob(ctx, shared, blob)
		}
		if err != nil {
			return missing, fmt.Errorf("push shared documents to %s: %w", place.Name(bundle.DocumentsRepository), err)
		}
	}
	if !missing {
		return false, nil
	}
	if err := PushManifest(ctx, shared, holder, tag); err != nil {
		return true, fmt.Errorf("push shared documents to %s: %w", place.Name(bundle.DocumentsRepository), err)
	}
	return true, nil
}

// ShareBlob writes a blob to the ContentRepository, with a manifest that refers to it. Without this manifest, the
// registry's garbage collection could delete the blob.
func ShareBlob(ctx context.Context, place Store, blob bundle.Blob) error {
	shared, err := place.Repository(ctx, bundle.ContentRepository)
	if err != nil {
		return err
	}
	holder, tag, err := ContentHolder(blob.Descriptor)
	if err != nil {
		return err
	}
	if _, err := Head(ctx, shared, tag); err == nil {
		if there, err := Has(ctx, shared, blob.Descriptor); err != nil || there {
			return err
		}
	}
	for _, b := range []bundle.Blob{bundle.EmptyBlob(), blob} {
		if err := pushMissing(ctx, shared, b); err != nil {
			return fmt.Errorf("push shared content to %s: %w", place.Name(bundle.ContentRepository), err)
		}
	}
	if err := PushManifest(ctx, shared, holder, tag); err != nil {
		return fmt.Errorf("push shared content to %s: %w", place.Name(bundle.ContentRepository), err)
	}
	return nil
}

// ContentHolder returns a manifest that refers to a blob, and the manifest's tag. The manifest protects the blob from
// the registry's garbage collection.
func ContentHolder(blob ocispec.Descriptor) (bundle.Blob, string, error) {
	holder, err := bundle.NewManifest(ocispec.Manifest{
		ArtifactType: bundle.ArtifactTypeContent, Config: ocispec.DescriptorEmptyJSON,
		Layers: []ocispec.Descriptor{{MediaType: blob.MediaType, Digest: blob.Digest, Size: blob.Size}},
	})
	return holder, "blob-" + blob.Digest.Encoded()[:32], err
}

// Has reports whether a repository contains all given blobs.
func Has(ctx context.Context, repository oras.Target, blobs ...ocispec.Descriptor) (bool, error) {
	for _, blob := range blobs {
		there, err := repository.Exists(ctx, blob)
		if err != nil {
			return false, fmt.Errorf("check for blob %s: %w", blob.Digest, err)
		}
		if !there {
			return false, nil
		}
	}
	return true, nil
}

func pushMissing(ctx context.Context, to oras.Target, blob bundle.Blob) error {
	if there, err := Has(ctx, to, blob.Descriptor); err != nil || there {
		return err
	}
	return PushBlob(ctx, to, blob)
}

// PlaceDocuments makes a bundle's documents available in the runtime's repository. The caller must first write the
// documents with EnsureDocuments. present reports whether the runtime's repository is known to contain a
// blob. PlaceDocuments does not push these blobs.
func PlaceDocuments(
	ctx context.Context, place Store, runtime string, documents bundle.Documents, present func(digest.Digest) bool,
) error {
	name := bundle.DesiredRepository(runtime)
	repository, err := place.Repository(ctx, name)
	if err != nil {
		return err
	}
	for _, blob := range []bundle.Blob{documents.State, documents.Catalog} {
		if present(blob.Descriptor.Digest) {
			continue
		}
		if err := mount(ctx, place, repository, blob); err != nil {
			return fmt.Errorf("push bundle to %s: %w", place.Name(name), err)
		}
	}
	return nil
}

// PushBundleManifest pushes the manifest for a runtime's bundle and tags it. The runtime's repository must contain the
// bundle's documents.
func PushBundleManifest(ctx context.Context, place Store, runtime string, manifest bundle.Blob) error {
	name := bundle.DesiredRepository(runtime)
	repository, err := place.Repository(ctx, name)
	if err != nil {
		return err
	}
	if r, ok := repository.(*remote.Repository); ok {
		_ = r.SetReferrersCapability(true) // skip the referrers check: a bundle has no subject
	}
	if err := PushManifest(ctx, repository, manifest, bundle.TagDesired); err != nil {
		return fmt.Errorf("push bundle to %s: %w", place.Name(name), err)
	}
	return nil
}

// mount makes a blob from the DocumentsRepository available in another repository, without an upload. If the registry
// does not support this, mount uploads the blob.
func mount(ctx context.Context, s Store, repository oras.Target, blob bundle.Blob) error {
	mounter, ok := repository.(registry.Mounter)
	if !ok {
		return PushBlob(ctx, repository, blob)
	}
	_, from, _ := strings.Cut(s.Name(bundle.DocumentsRepository), "/")
	err := mounter.Mount(ctx, blob.Descriptor, from, func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(blob.Bytes)), nil
	})
	switch {
	case err == nil:
		return nil
	case !refusesMount(err):
		return fmt.Errorf("mount blob %s: %w", blob.Descriptor.Digest, err)
	}
	if uploaded := PushBlob(ctx, repository, blob); uploaded != nil {
		return fmt.Errorf("%w (before that, the registry refused to mount the blob: %w)", uploaded, WithoutDetail(err))
	}
	return nil
}

// refusesMount reports whether the registry responded with status 500, 501, or a client error other than 408 and 429.
// Registries return different errors if they do not support mounts or deny access to the source repository. If the
// whole registry is broken, the upload fails, too.
func refusesMount(err error) bool {
	status, answered := StatusOf(err)
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return answered && status <= http.StatusNotImplemented
}

// PushReport publishes a runtime's report.
func PushReport(ctx context.Context, place Store, runtime string, manifest bundle.Blob) error {
	repository, err := place.Repository(ctx, bundle.ReportRepository(runtime))
	if err != nil {
		return err
	}
	if err := pushMissing(ctx, repository, bundle.EmptyBlob()); err != nil {
		return fmt.Errorf("push report to %s: %w", place.Name(bundle.ReportRepository(runtime)), err)
	}
	if err := PushManifest(ctx, repository, manifest, bundle.TagLatest); err != nil {
		return fmt.Errorf("push report to %s: %w", place.Name(bundle.ReportRepository(runtime)), err)
	}
	return nil
}
