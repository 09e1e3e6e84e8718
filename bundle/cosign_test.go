package bundle

import (
	"encoding/json"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

// A publisher's key also signs statements for cosign. An agent must accept only statements of its own predicate type.
func TestVerifyRefusesACosignSignatureAsAttestation(t *testing.T) {
	a := newAttempt(t)
	manifest, err := Compose(a.documents, samplePredicate(), a.signer)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := ComposeCosign(manifest, trusttest.Now, a.signer)
	if err != nil {
		t.Fatal(err)
	}
	a.attestation = append(a.attestation, func(string) string { return string(signature.Signature.Bytes) })
	_, err = a.verify(t)
	trusttest.WantReason(t, err, refusal.PredicateType)

	_, err = Verify(Fetched(signature.Manifest), a.trust, a.now)
	trusttest.WantReason(t, err, refusal.Malformed)
	var shape ocispec.Manifest
	if err := json.Unmarshal(signature.Manifest.Bytes, &shape); err != nil || shape.Subject == nil ||
		shape.Subject.Digest != manifest.Descriptor.Digest {
		t.Errorf("subject is %v, %v, want the bundle", shape.Subject, err)
	}
}
