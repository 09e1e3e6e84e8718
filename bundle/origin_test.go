package bundle

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestOriginsListBundleAndSourceOfEveryModule(t *testing.T) {
	a := newAttempt(t)
	previous := &Position{Sequence: 99, Digest: a.documents.State.Descriptor.Digest}
	source := &Source{Repository: "https://git.example/fleet", Commit: "3f0c"}
	a.predicate(func(p *Predicate) { p.Previous, p.Source = previous, source })
	verified, err := a.verify(t)
	if err != nil {
		t.Fatal(err)
	}
	state := sampleState()
	leaving := state.Manifests[0]
	leaving.Name, leaving.Module, leaving.Content = "api", "api", nil
	state.Leaving = []Manifest{leaving}
	origins := Bundle{Verified: verified, State: state}.Origins()
	if len(origins) != 2 || origins[0].Module != "api" || len(origins[0].Content) != 0 || origins[1].Module != "keda" ||
		origins[1].Version != "1.8.0" {
		t.Fatalf("got origins %+v, want one for each module", origins)
	}
	if content := state.Manifests[0].Content[0]; origins[1].Content[0] != (Ingredient{content.Name, content.Repository,
		content.Digest}) {
		t.Errorf("got content %+v, want %+v", origins[1].Content, content)
	}
	for _, o := range origins {
		id := o.Bundle
		if id.Digest != verified.Digest || id.Runtime != trusttest.Runtime || id.Epoch != 1 || id.Sequence != 100 ||
			id.RootVersion != 1 || *id.Previous != *previous || *id.Source != *source {
			t.Errorf("%s: got bundle %+v, want the verified bundle", o.Module, id)
		}
		if id.PublisherKey != trusttest.Thumbprint(t, a.signer) || !id.IssuedAt.Equal(samplePredicate().IssuedAt) {
			t.Errorf("%s: got signer %s and time %s, want those of the bundle", o.Module, id.PublisherKey, id.IssuedAt)
		}
	}
}
