package publish

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// releaseProof contains the documents with which agents verify that a component was released.
type releaseProof struct{ blobs []bundle.Blob }

func (e *releaseProof) add(mediaType string, data []byte) {
	e.blobs = append(e.blobs, bundle.NewBlob(mediaType, data))
}

// proveRelease verifies, in the same way as agents do, that the content of a component belongs to a signed release. It
// also pushes the documents that agents need for this check. If it returns an error, only the component's module is
// affected.
func (p *Publisher) proveRelease(
	ctx context.Context, root trust.Root, all []component.Component, proof *releaseProof, content *resolve.Content,
) error {
	main := all[0].Descriptor
	released := trust.Released{Component: main.Name, Version: main.Version, Images: content.Images}
	if !root.HasReleaseKeys() {
		return root.CheckFloor(released.Component, released.Version)
	}
	for _, c := range all {
		document, err := c.Descriptor.Document()
		if err != nil {
			return err
		}
		proof.add(trust.MediaTypeDescriptor, document)
	}
	documents := make(map[digest.Digest][]byte, len(proof.blobs))
	for _, blob := range proof.blobs {
		documents[blob.Descriptor.Digest] = blob.Bytes
	}
	for _, part := range content.Parts() {
		released.Contents = append(released.Contents, trust.ReleasedContent{Name: part.Name, Digest: part.Digest})
	}
	if _, err := root.CheckRelease(released, documents, p.Now()); err != nil {
		return err
	}
	for _, blob := range proof.blobs {
		if err := store.ShareBlob(ctx, p.Place, blob); err != nil {
			return fmt.Errorf("push the release documents of component %s:%s: %w", main.Name, main.Version, err)
		}
		content.Release = append(content.Release, bundle.Content{
			Name: "release", Repository: p.Place.Name(bundle.ContentRepository),
			MediaType: blob.Descriptor.MediaType, Digest: blob.Descriptor.Digest, SizeBytes: blob.Descriptor.Size,
		})
	}
	slices.SortFunc(content.Release, func(a, b bundle.Content) int { return cmp.Compare(a.Digest, b.Digest) })
	return nil
}

// acceptedState returns the last desired state without the Manifests that agents would refuse now or that the current
// signature policy does not allow.
func (p *Publisher) acceptedState(ctx context.Context, root trust.Root, last bundle.DesiredState) *bundle.DesiredState {
	var kept []bundle.Manifest
	for _, m := range last.Manifests {
		if root.CheckFloor(m.Component, m.Version) != nil || root.HasReleaseKeys() && !m.CanProveRelease() {
			continue
		}
		if p.RequiresSignature != nil && p.RequiresSignature(m.Component) &&
			p.Components.CheckAccepted(ctx, m.Component, m.Version) != nil {
			continue
		}
		kept = append(kept, m)
	}
	last.Manifests = kept
	return &last
}
