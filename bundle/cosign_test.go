package bundle

import (
	"encoding/json"
	"path/filepath"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry"
)

func TestACosignSignatureRefersToItsBundle(t *testing.T) {
	signer, dir := newSigner(t), filepath.Join(t.TempDir(), "layout")
	place, err := NewPlace(LayoutScheme+dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	documents := sampleDocuments(t)
	manifest, err := Compose(documents, samplePredicate(), signer)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := ComposeCosign(manifest, testNow, signer)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a publisher that was interrupted does it again
		if err := PushCosign(t.Context(), place, testRuntime, signature); err != nil {
			t.Fatal(err)
		}
	}
	if err := PushBundle(t.Context(), place, testRuntime, documents, manifest, nothingPresent); err != nil {
		t.Fatal(err)
	}
	store, err := oci.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := registry.Referrers(t.Context(), store, manifest.Descriptor, mediaTypeSigstoreBundle)
	if err != nil || len(referrers) != 1 || referrers[0].Digest != signature.Manifest.Descriptor.Digest {
		t.Errorf("referrers are %v, %v, want the signature alone", referrers, err)
	}
}

// A publisher's key now signs two kinds of statement; an agent must follow one of them only.
func TestVerifyRefusesACosignSignatureAsAttestation(t *testing.T) {
	a := newAttempt(t)
	manifest, err := Compose(a.documents, samplePredicate(), a.signer)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := ComposeCosign(manifest, testNow, a.signer)
	if err != nil {
		t.Fatal(err)
	}
	a.attestation = append(a.attestation, func(string) string { return string(signature.Signature.Bytes) })
	_, err = a.verify(t)
	wantReason(t, err, ReasonPredicateType)

	_, err = Verify(Fetched(signature.Manifest), a.trust, a.now)
	wantReason(t, err, ReasonMalformed)
	var shape ocispec.Manifest
	if err := json.Unmarshal(signature.Manifest.Bytes, &shape); err != nil || shape.Subject == nil || shape.Subject.Digest != manifest.Descriptor.Digest {
		t.Errorf("subject is %v, %v, want the bundle", shape.Subject, err)
	}
}
