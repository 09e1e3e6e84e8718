package store

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestRootChainIsFollowedInLimitedSteps(t *testing.T) {
	m := trusttest.NewRootFixture(t)
	first := m.First()
	place, err := Open(LayoutScheme+filepath.Join(t.TempDir(), "layout"), nil)
	m.Must(err)
	last := first
	for range trust.MaxRootHops + 3 {
		last, err = last.Next(m.After(last, trusttest.NoChange, m.Keys[:2]...))
		m.Must(err)
		m.Must(PushRoot(t.Context(), place, last))
	}
	for _, want := range []int64{1 + trust.MaxRootHops, last.Version, last.Version} {
		newest, refusal, _, err := FollowRoot(t.Context(), place, first)
		if err != nil || refusal != nil || newest.Version != want {
			t.Fatalf("followed version %d to %d, want %d; refusal %v, error %v", first.Version, newest.Version, want,
				refusal, err)
		}
		first = newest
	}
}

func TestPublishedRootIsNeverReplaced(t *testing.T) {
	m := trusttest.NewRootFixture(t)
	first := m.First()
	place, err := Open(LayoutScheme+filepath.Join(t.TempDir(), "layout"), nil)
	m.Must(err)
	for range 2 {
		m.Must(PushRoot(t.Context(), place, first))
	}
	data, _, err := FetchRoot(t.Context(), place, 1)
	if err != nil || string(data) != string(first.Raw) {
		t.Errorf("got root %q, error %v, want the pushed root", data, err)
	}
	if _, _, err := FetchRoot(t.Context(), place, 2); !errors.Is(err, ErrNotFound) {
		t.Errorf("missing version: got error %v, want ErrNotFound", err)
	}
	other := trusttest.NewRootFixture(t).First()
	if err := PushRoot(t.Context(), place, other); err == nil ||
		!strings.Contains(err.Error(), "is a different root of trust") {
		t.Errorf("different root with the same version: got error %v, want a conflict", err)
	}
	repository, err := place.Repository(t.Context(), bundle.TrustRepository)
	m.Must(err)
	blob := bundle.NewBlob("application/json", []byte(`{"x":1}`))
	manifest, err := bundle.NewManifest(ocispec.Manifest{
		ArtifactType: bundle.ArtifactTypeRoot, Config: ocispec.DescriptorEmptyJSON,
		Layers: []ocispec.Descriptor{blob.Descriptor},
	})
	m.Must(err)
	m.Must(PushBlob(t.Context(), repository, blob))
	m.Must(PushManifest(t.Context(), repository, manifest, bundle.RootTag(2)))
	_, _, err = FetchRoot(t.Context(), place, 2)
	trusttest.WantReason(t, err, refusal.BadRoot)
}
