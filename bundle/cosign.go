package bundle

import (
	"fmt"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// predicateCosignSign is the predicate type of statements by `cosign sign`. Agents refuse it, like any foreign
// predicate.
const predicateCosignSign = "https://sigstore.dev/cosign/sign/v1"

// CosignSignature is an OCI referrer of a bundle in the format of cosign 3. It is for verification with standard tools;
// agents never read it.
type CosignSignature struct {
	// Signature is a sigstore bundle whose only subject is the manifest. The bundle's own attestation cannot serve
	// here: it is part of that manifest, so it cannot contain the manifest's digest.
	Signature Blob
	Manifest  Blob
}

// ComposeCosign signs a bundle's manifest for `cosign verify`. issued is the bundle's time of issue.
//
// Source: cosign, specs/BUNDLE_SPEC.md (artifactType, annotations); OCI image-spec 1.1, manifest.md, "subject".
func ComposeCosign(manifest Blob, issued time.Time, signer trust.Signer) (CosignSignature, error) {
	signed, err := attest(struct {
		Type          string    `json:"_type"`
		Subject       []Subject `json:"subject"`
		PredicateType string    `json:"predicateType"`
		Predicate     struct{}  `json:"predicate"`
	}{Type: StatementType, Subject: []Subject{subjectOf("", manifest.Descriptor.Digest)},
		PredicateType: predicateCosignSign}, signer)
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
