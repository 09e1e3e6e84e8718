package bundle

import (
	"encoding/json"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestVerifyCarriedRefusesListsWithoutPublisherSignature(t *testing.T) {
	signer := trusttest.NewSigner(t)
	root := trusttest.RootFor(t, signer)
	list, err := NewCarried(nil, []CarriedBundle{{Runtime: trusttest.Runtime, Digest: EmptyBlob().Descriptor.Digest}})
	if err != nil {
		t.Fatal(err)
	}
	composed, err := ComposeCarried(list, CarriedPredicate{Epoch: 1, Sequence: 1}, signer)
	if err != nil {
		t.Fatal(err)
	}
	// edited returns the signed manifest after a change, without signing it again.
	edited := func(change func(*ocispec.Manifest)) Fetched {
		var manifest ocispec.Manifest
		if err := json.Unmarshal(composed.Bytes, &manifest); err != nil {
			t.Fatal(err)
		}
		change(&manifest)
		blob, err := NewManifest(manifest)
		if err != nil {
			t.Fatal(err)
		}
		return Fetched(blob)
	}
	if _, err := VerifyCarried(Fetched(composed), root); err != nil {
		t.Errorf("signed list: %v", err)
	}
	_, err = VerifyCarried(Fetched(composed), trusttest.RootFor(t, trusttest.NewSigner(t)))
	trusttest.WantReason(t, err, refusal.UnknownKey)
	_, err = VerifyCarried(edited(func(m *ocispec.Manifest) { m.Annotations = nil }), root)
	trusttest.WantReason(t, err, refusal.Unsigned)
	other := NewBlob(MediaTypeCarried, []byte("{}"))
	_, err = VerifyCarried(edited(func(m *ocispec.Manifest) { m.Config = other.Descriptor }), root)
	trusttest.WantReason(t, err, refusal.WrongDigest)
}
