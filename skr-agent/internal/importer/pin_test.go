package importer

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

func TestFirstImportPinsItsRoot(t *testing.T) {
	s, stranger := newSender(t), newSender(t)
	i := s.importer(filepath.Join(t.TempDir(), "target"))
	i.Root = trust.Root{}

	first, err := i.Import(t.Context(), []string{s.withRoot(1)})
	must(t, err)
	if want := digest.FromBytes(s.root.Raw); first.PinnedRoot != want {
		t.Errorf("got pinned root %s, want %s", first.PinnedRoot, want)
	}
	second, err := i.Import(t.Context(), []string{s.withRoot(2)})
	if err != nil || second.PinnedRoot != "" {
		t.Errorf("got outcome %+v and error %v of the second import, want no pinned root", second, err)
	}
	_, err = i.Import(t.Context(), []string{stranger.withRoot(3)})
	if refusal.Of(err) == nil {
		t.Errorf("got error %v for another fleet's file, want a refusal", err)
	}
	known := i
	known.Root = s.root
	if got := sequenceAt(t, known); got != 2 {
		t.Errorf("got bundle %d at the target, want 2", got)
	}
}

// The target registry may have lost older versions of the root of trust.
func TestImportStartsFromOldestRootInTheRegistry(t *testing.T) {
	for _, version := range []int64{1, trust.MaxRootHops, trust.MaxRootHops + 1, 1000} {
		s, stranger := newSender(t), newSender(t)
		i := s.importer(filepath.Join(t.TempDir(), "target"))
		s.root.Version = version
		must(t, store.PushRoot(t.Context(), i.Target, s.root))
		i.Root = trust.Root{}
		outcome, err := i.Import(t.Context(), []string{stranger.withRoot(1)})
		if refusal.Of(err) == nil || outcome.PinnedRoot != "" {
			t.Errorf("root version %d: got pinned root %q and error %v, want a refusal", version, outcome.PinnedRoot,
				err)
		}
	}
}

func TestRootVersionsIgnoreUnrelatedTags(t *testing.T) {
	got := rootVersions([]string{"root-10", "root-2", "root-02", "root-+3", "root--1", "root-0", "desired", "root-x"})
	if fmt.Sprint(got) != "[2 10]" {
		t.Errorf("got versions %v, want [2 10]", got)
	}
}

func TestFileWithoutRootNeedsConfiguredRoot(t *testing.T) {
	s := newSender(t)
	i := s.importer(filepath.Join(t.TempDir(), "target"))
	i.Root = trust.Root{}
	if _, err := i.Import(t.Context(), []string{s.next(1, false, "keda")}); refusal.Of(err) == nil {
		t.Errorf("got error %v, want a refusal", err)
	}
}

// withRoot returns a file with the next bundle and the first version of the root of trust.
func (s *sender) withRoot(sequence int64) string {
	s.t.Helper()
	place, err := store.Open(store.LayoutScheme+s.t.TempDir(), nil)
	must(s.t, err)
	must(s.t, store.PushRoot(s.t.Context(), place, s.root))
	repository, err := place.Reading(s.t.Context(), bundle.TrustRepository)
	must(s.t, err)
	newest, err := store.Head(s.t.Context(), repository, bundle.RootTag(1))
	must(s.t, err)
	fetched, err := store.Fetch(s.t.Context(), repository, newest.String())
	must(s.t, err)

	layout := s.layout(sequence, false, "keda")
	manifest := bundle.NewBlob(ocispec.MediaTypeImageManifest, fetched.Bytes)
	for _, blob := range []bundle.Blob{manifest, bundle.NewBlob(bundle.MediaTypeRoot, s.root.Raw),
		bundle.NewBlob(ocispec.MediaTypeEmptyJSON, []byte("{}"))} {
		layout.Items = append(layout.Items, airgap.InMemory(blob))
	}
	layout.References = append(layout.References, airgap.Reference{
		Name: bundle.TrustRepository + ":" + bundle.RootTag(1), Descriptor: manifest.Descriptor,
	})
	path := filepath.Join(s.t.TempDir(), "file.tar")
	_, err = airgap.Write(s.t.Context(), path, layout, airgap.Packing{}, func(int64) {})
	must(s.t, err)
	return path
}
