package store

import (
	"path/filepath"
	"testing"

	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestCosignSignatureRefersToItsBundle(t *testing.T) {
	signer, dir := trusttest.NewSigner(t), filepath.Join(t.TempDir(), "layout")
	place, err := Open(LayoutScheme+dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	documents := storedDocuments(t)
	manifest, err := bundle.Compose(documents, storedPredicate(), signer)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := bundle.ComposeCosign(manifest, trusttest.Now, signer)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a publisher that was interrupted does it again
		if err := PushCosign(t.Context(), place, trusttest.Runtime, signature); err != nil {
			t.Fatal(err)
		}
	}
	if err := PushBundle(t.Context(), place, trusttest.Runtime, documents, manifest, nothingPresent); err != nil {
		t.Fatal(err)
	}
	store, err := oci.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := registry.Referrers(t.Context(), store, manifest.Descriptor, bundle.MediaTypeSigstoreBundle)
	if err != nil || len(referrers) != 1 || referrers[0].Digest != signature.Manifest.Descriptor.Digest {
		t.Errorf("referrers are %v, %v, want the signature alone", referrers, err)
	}
}
