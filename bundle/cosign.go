package bundle

import (
	"fmt"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// predicateCosignSign is the type of what `cosign sign` says of an image. An agent refuses it like every other that is
// not ours.
const predicateCosignSign = "https://sigstore.dev/cosign/sign/v1"

// CosignSignature is an OCI referrer of a bundle, as cosign 3 writes and looks for them. It is for people with stock
// tools; agents never read it.
type CosignSignature struct {
	// Signature is a sigstore bundle whose only subject is the manifest. It cannot be the bundle's own attestation, which
	// is part of that manifest and so cannot name its digest.
	Signature Blob
	Manifest  Blob
}

// ComposeCosign signs a bundle's manifest for `cosign verify`. issued is when the bundle was.
//
// Source: cosign, specs/BUNDLE_SPEC.md (artifactType, annotations); OCI image-spec 1.1, manifest.md, "subject".
func ComposeCosign(manifest Blob, issued time.Time, signer trust.Signer) (CosignSignature, error) {
	signed, err := attest(struct {
		Type          string    `json:"_type"`
		Subject       []Subject `json:"subject"`
		PredicateType string    `json:"predicateType"`
		Predicate     struct{}  `json:"predicate"`
	}{Type: StatementType, Subject: []Subject{subjectOf("", manifest.Descriptor.Digest)}, PredicateType: predicateCosignSign}, signer)
	if err != nil {
		return CosignSignature{}, fmt.Errorf("sign manifest %s for cosign: %w", manifest.Descriptor.Digest, err)
	}
	signature := NewBlob(MediaTypeSigstoreBundle, signed)
	subject := manifest.Descriptor
	referrer, err := NewManifest(ocispec.Manifest{
		ArtifactType: MediaTypeSigstoreBundle,
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
