package prune

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

// registryFolder is a folder used as the registry, with a publisher's key.
type registryFolder struct {
	*testing.T
	signer trust.Signer
	place  store.Store
	dir    string
}

func newShelf(t *testing.T) *registryFolder {
	t.Helper()
	s := &registryFolder{T: t, signer: trusttest.NewSigner(t), dir: t.TempDir()}
	s.place = store.NewLayout(s.dir)
	return s
}

func (s *registryFolder) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *registryFolder) documents(content string) bundle.Documents {
	s.Helper()
	c := bundle.NewBlob("application/x-tar", []byte(content))
	s.must(store.ShareBlob(s.Context(), s.place, c))
	documents, err := bundle.NewDocuments(bundle.DesiredState{Manifests: []bundle.Manifest{{
		Name: "m", Module: "m", Version: "1.0.0",
		Content: []bundle.Content{
			{
				Name: "x", Repository: "./content", MediaType: c.Descriptor.MediaType, Digest: c.Descriptor.Digest,
				SizeBytes: c.Descriptor.Size,
			},
		},
	}}}, bundle.Catalog{})
	s.must(err)
	s.must(storetest.ShareDocuments(s.Context(), s.place, documents))
	return documents
}

// push publishes bundles that were issued the given numbers of days ago.
func (s *registryFolder) push(
	signer trust.Signer, documents bundle.Documents, runtime string, days ...int,
) (all []digest.Digest) {
	s.Helper()
	var previous *bundle.Position
	for _, d := range days {
		previous = s.pushAfter(previous, signer, documents, runtime, d)
		all = append(all, previous.Digest)
	}
	return all
}

// pushAfter publishes one bundle and returns its position.
func (s *registryFolder) pushAfter(
	previous *bundle.Position, signer trust.Signer, documents bundle.Documents, runtime string, day int,
) *bundle.Position {
	s.Helper()
	sequence := int64(1)
	if previous != nil {
		sequence = previous.Sequence + 1
	}
	manifest, err := bundle.Compose(documents, bundle.Predicate{
		Audience: bundle.Audience{Runtime: runtime}, Epoch: 1, Sequence: sequence, IssuedAt: ago(day),
		ExpiresAt: ago(day - 7), Previous: previous, RootVersion: 1,
	}, signer)
	s.must(err)
	s.must(storetest.PushBundle(s.Context(), s.place, runtime, documents, manifest))
	return &bundle.Position{Sequence: sequence, Digest: manifest.Descriptor.Digest}
}

func (s *registryFolder) read(change func(*Source)) Inventory {
	s.Helper()
	source := Source{
		Place: s.place, Root: trusttest.RootFor(s.T, s.signer), Kymas: map[string][]digest.Digest{"a": nil}, Sole: true,
		Rules: rules,
	}
	change(&source)
	inventory, err := Read(s.Context(), source)
	s.must(err)
	return inventory
}

func nothing(*Source) {}

func TestInventoryContainsBundlesAndTheirContent(t *testing.T) {
	s := newShelf(t)
	pushed := s.push(s.signer, s.documents("old"), "a", 90, 80, 70)
	inventory := s.read(nothing)
	if len(inventory.Unknown) > 0 || len(inventory.Runtimes) != 1 || len(inventory.Runtimes[0].Bundles) != 3 ||
		inventory.Runtimes[0].Bundles[2].Descriptor.Digest != pushed[0] {
		t.Fatalf("got inventory %+v, want 3 bundles of one runtime", inventory)
	}
	if plan := Decide(inventory, nil, rules); len(plan.Remove) != 1 || plan.Remove[0].Descriptor.Digest != pushed[0] ||
		len(plan.Waiting) != 0 {
		t.Errorf("got removals %+v and waiting manifests %+v, want only the oldest bundle removed",
			plan.Remove, plan.Waiting)
	}

	// A new chain of bundles starts, but the last bundle that the runtime applied is in the old chain.
	s.push(s.signer, s.documents("new"), "a", 40)
	forgotten := s.read(nothing)
	if plan := Decide(forgotten, nil, rules); len(plan.Waiting) != 2 {
		t.Errorf("got waiting manifests %+v, want the documents and content of the former bundle", plan.Waiting)
	}
	remembered := s.read(func(source *Source) { source.Kymas["a"] = []digest.Digest{pushed[2]} })
	if plan := Decide(remembered, nil, rules); len(plan.Waiting) != 0 {
		t.Errorf("manifests of the applied bundle: got waiting manifests %+v, want none", plan.Waiting)
	}
}

// The bundles have the same state and different catalogs. The superseded bundle is incomplete.
func TestSharedStateIsReadFromABundleInUse(t *testing.T) {
	s := newShelf(t)
	now := s.documents("x")
	catalog, err := bundle.EncodeCatalog(bundle.Catalog{
		ModuleTemplates: []bundle.CatalogEntry{{Name: "m", Spec: []byte("{}")}},
	})
	s.must(err)
	before := bundle.Documents{State: now.State, Catalog: bundle.NewBlob(bundle.MediaTypeCatalog, catalog)}
	last := s.pushAfter(nil, s.signer, before, "a", 90)
	for _, day := range []int{80, 70} {
		last = s.pushAfter(last, s.signer, now, "a", day)
	}
	s.must(os.Remove(filepath.Join(s.dir, ocispec.ImageBlobsDir, "sha256", before.Catalog.Descriptor.Digest.Encoded())))
	if inventory := s.read(nothing); len(inventory.Unknown) > 0 ||
		len(inventory.Contents[now.State.Descriptor.Digest]) != 1 {
		t.Errorf("got reasons %q and contents %v", inventory.Unknown, inventory.Contents)
	}
}

func TestRuntimeWithVeryManyBundlesDoesNotBlockOthers(t *testing.T) {
	s := newShelf(t)
	inForce := s.documents("in force")
	toggled := s.push(s.signer, inForce, "a", 90)
	last := &bundle.Position{Sequence: 1, Digest: toggled[0]}
	for _, day := range []int{80, 70, 60, 50, 40, 35} {
		last = s.pushAfter(last, s.signer, s.documents("new"), "a", day)
	}
	s.documents("unused")
	three := func(source *Source) { source.MaxChain, source.Kymas["a"] = 3, []digest.Digest{toggled[0], last.Digest} }
	noted := map[string]time.Time{}
	waiting := func(inventory Inventory) (unused []string) {
		for _, m := range inventory.Shared {
			noted[m.Key()] = ago(100)
		}
		for _, r := range Decide(inventory, noted, rules).Remove {
			if len(r.Tags) > 0 {
				unused = append(unused, r.Repository)
			}
		}
		return unused
	}

	// Prune reads only the newest part of the chain and keeps the applied bundle.
	inventory := s.read(three)
	if len(inventory.Unknown) > 0 || len(inventory.Runtimes) != 1 || inventory.Runtimes[0].Truncated ||
		len(inventory.Runtimes[0].Bundles) != 4 {
		t.Fatalf("got inventory %+v, want 4 bundles that are not truncated", inventory)
	}
	if got := waiting(inventory); len(got) != 2 || got[0] != bundle.ContentRepository ||
		got[1] != bundle.DocumentsRepository {
		t.Errorf("plan removes shared manifests in %v, want the unused content and documents", got)
	}
	if got := removalText(inventory, Decide(inventory, nil, rules)); got != "runtimes/a#2" {
		t.Errorf("plan removes %q, want the oldest bundle that was read", got)
	}

	// If a runtime changed very often recently, prune reads only part of its chain and does not remove any bundle.
	for range 3 {
		last = s.pushAfter(last, s.signer, s.documents("newest"), "a", 1)
	}
	inventory = s.read(three)
	if len(inventory.Unknown) > 0 || !inventory.Runtimes[0].Truncated || len(inventory.Runtimes[0].Bundles) != 4 {
		t.Fatalf("got inventory %+v, want 4 bundles that are truncated", inventory)
	}
	if got := removalText(inventory, Decide(inventory, nil, rules)); got != "" {
		t.Errorf("got removals %q, want none", got)
	}
}

func TestUnreadableObjectsPreventRemovals(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(*registryFolder, bundle.Documents)
		source func(*Source)
		want   string
	}{
		"the newest bundle has an unknown signer": {
			func(s *registryFolder, d bundle.Documents) {
				s.push(trusttest.NewSigner(s.T), d, "a", 1)
			}, nothing, "runtime a: bundle desired",
		},
		"a recent predecessor has an unknown signer": {func(s *registryFolder, d bundle.Documents) {
			s.push(s.signer, d, "a", 1)
			stranger := s.push(trusttest.NewSigner(s.T), d, "a", 2)
			manifest, err := bundle.Compose(d, bundle.Predicate{
				Audience: bundle.Audience{Runtime: "a"}, Epoch: 1, Sequence: 5, IssuedAt: ago(1), ExpiresAt: ago(-7),
				RootVersion: 1,
				Previous:    &bundle.Position{Sequence: 1, Digest: stranger[0]},
			}, s.signer)
			s.must(err)
			s.must(storetest.PushBundle(s.Context(), s.place, "a", d, manifest))
		}, nothing, "runtime a: bundle sha256:"},
		"documents are missing": {func(s *registryFolder, d bundle.Documents) {
			s.must(os.Remove(filepath.Join(s.dir, ocispec.ImageBlobsDir, "sha256",
				d.State.Descriptor.Digest.Encoded())))
		}, nothing, "desired state sha256:"},
		"the registry does not list its repositories": {
			func(*registryFolder, bundle.Documents) {}, func(source *Source) {
				source.Sole = false
			}, "runtimes of other control planes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			documents := s.documents("x")
			s.push(s.signer, documents, "a", 1)
			s.documents("unused")
			c.damage(s, documents)
			inventory := s.read(c.source)
			if len(inventory.Unknown) == 0 || !strings.Contains(strings.Join(inventory.Unknown, "\n"), c.want) {
				t.Errorf("got reasons %q, want %q", inventory.Unknown, c.want)
			}
			noted := map[string]time.Time{}
			for _, m := range inventory.Shared {
				noted[m.Key()] = ago(100)
			}
			if plan := Decide(inventory, noted, rules); len(plan.Remove) != 0 {
				t.Errorf("plan removes %+v, want nothing", plan.Remove)
			}
		})
	}
}

func TestUnknownManifestsAreIgnored(t *testing.T) {
	s := newShelf(t)
	s.push(s.signer, s.documents("x"), "a", 1)
	s.documents("unused")
	repository, err := s.place.Repository(t.Context(), bundle.DocumentsRepository)
	s.must(err)
	inventory := s.read(nothing)
	for _, m := range inventory.Shared {
		if m.Repository == bundle.DocumentsRepository {
			// a tag that an operator added
			s.must(repository.Tag(t.Context(), m.Descriptor, "keep-"+m.Descriptor.Digest.Encoded()[:8]))
		}
	}
	for _, m := range s.read(nothing).Shared {
		if m.Repository == bundle.DocumentsRepository {
			t.Errorf("a manifest with an unknown tag is in the inventory: %v", m.Tags)
		}
	}
}

func TestUnusedManifestRecordSurvivesRoundTrip(t *testing.T) {
	s := newShelf(t)
	s.must(os.WriteFile(filepath.Join(s.dir, ocispec.ImageLayoutFile), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o600))
	s.must(os.WriteFile(filepath.Join(s.dir, ocispec.ImageIndexFile), []byte(`{"schemaVersion":2}`), 0o600))
	if none, err := ReadNotes(t.Context(), s.place); err != nil || len(none) != 0 {
		t.Errorf("before the first run: got %v, %v", none, err)
	}
	left, err := WriteNotes(t.Context(), s.place, map[string]time.Time{"documents@sha256:x": today})
	s.must(err)
	if left != 0 {
		t.Errorf("%d entries were omitted, want none", left)
	}
	if got, err := ReadNotes(t.Context(), s.place); err != nil || !got["documents@sha256:x"].Equal(today) {
		t.Errorf("got record %v and error %v", got, err)
	}
	repository, err := s.place.Repository(t.Context(), bundle.PruningRepository)
	s.must(err)
	s.must(store.PushManifest(t.Context(), repository, bundle.NewBlob(ocispec.MediaTypeImageManifest, []byte("{}")),
		recordTag))
	if _, err := ReadNotes(t.Context(), s.place); err == nil ||
		!strings.Contains(err.Error(), "delete the record to reset the age of all unused manifests") {
		t.Errorf("invalid record: got error %v, want one with the fix", err)
	}
}

func TestFullRecordKeepsTheOldestEntries(t *testing.T) {
	s := newShelf(t)
	unused, many := map[string]time.Time{}, 20_000
	for i := range many {
		unused[fmt.Sprintf("content@%05d%s", i, strings.Repeat("x", 1000))] = today.Add(-time.Duration(i) * time.Second)
	}
	left, err := WriteNotes(t.Context(), s.place, unused)
	s.must(err)
	noted, err := ReadNotes(t.Context(), s.place)
	s.must(err)
	if left == 0 || len(noted)+left != many {
		t.Fatalf("got %d recorded and %d omitted entries of %d", len(noted), left, many)
	}
	for key, since := range noted {
		if !since.Equal(unused[key]) || today.Sub(since) < time.Duration(left)*time.Second {
			t.Errorf("entry %.13s: got recorded time %s, want an older entry than the omitted ones", key, since)
		}
	}
}

func TestUnusedManifestRecordFitsItsLimit(t *testing.T) {
	unused := map[string]time.Time{}
	for i := range 40 {
		unused[fmt.Sprintf("content@\"%d\"", i)] = ago(i)
	}
	for limit := 100; limit < 2500; limit += 7 {
		data, left, err := encodeRecord(unused, limit)
		if err != nil || len(data) > limit || left == 0 && limit < 1000 {
			t.Fatalf("limit %d: got %d bytes with %d omitted entries, %v", limit, len(data), left, err)
		}
	}
}
