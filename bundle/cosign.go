package bundle

import (
	"context"
	"fmt"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// predicateCosignSign is the type of what `cosign sign` says of an image. An agent refuses it like every other that is not ours.
const predicateCosignSign = "https://sigstore.dev/cosign/sign/v1"

// CosignSignature is an OCI referrer of a bundle, as cosign 3 writes and looks for them. It is for people with stock tools; agents
// never read it.
type CosignSignature struct {
	// Signature is a sigstore bundle whose only subject is the manifest. It cannot be the bundle's own attestation, which is part
	// of that manifest and so cannot name its digest.
	Signature Blob
	Manifest  Blob
}

// ComposeCosign signs a bundle's manifest for `cosign verify`. issued is when the bundle was.
//
// Source: cosign, specs/BUNDLE_SPEC.md (artifactType, annotations); OCI image-spec 1.1, manifest.md, "subject".
func ComposeCosign(manifest Blob, issued time.Time, signer Signer) (CosignSignature, error) {
	signed, err := attest(struct {
		Type          string    `json:"_type"`
		Subject       []Subject `json:"subject"`
		PredicateType string    `json:"predicateType"`
		Predicate     struct{}  `json:"predicate"`
	}{Type: StatementType, Subject: []Subject{subjectOf("", manifest.Descriptor.Digest)}, PredicateType: predicateCosignSign}, signer)
	if err != nil {
		return CosignSignature{}, fmt.Errorf("sign manifest %s for cosign: %w", manifest.Descriptor.Digest, err)
	}
	signature := NewBlob(mediaTypeSigstoreBundle, signed)
	subject := manifest.Descriptor
	referrer, err := newManifest(ocispec.Manifest{
		ArtifactType: mediaTypeSigstoreBundle,
		Config:       ocispec.DescriptorEmptyJSON,
		Layers:       []ocispec.Descriptor{signature.Descriptor},
		Subject:      &subject,
		Annotations: map[string]string{
			"dev.sigstore.bundle.content":       "dsse-envelope",
			"dev.sigstore.bundle.predicateType": predicateCosignSign,
			ocispec.AnnotationCreated:           stamp(issued),
		},
	})
	return CosignSignature{Signature: signature, Manifest: referrer}, err
}

// PushCosign makes the signature a referrer in the runtime's repository. It comes before the bundle it signs (PushBundle), so that
// whoever asks finds no bundle without its signature; a referrer may name what is not there yet.
func PushCosign(ctx context.Context, place *Place, runtime string, signature CosignSignature) error {
	name := DesiredRepository(runtime)
	repository, err := place.Repository(ctx, name)
	if err != nil {
		return err
	}
	for _, blob := range []Blob{EmptyBlob(), signature.Signature, signature.Manifest} {
		if err := pushMissing(ctx, repository, blob); err != nil {
			return fmt.Errorf("attach signature in %s: %w", place.Name(name), err)
		}
	}
	return nil
}
