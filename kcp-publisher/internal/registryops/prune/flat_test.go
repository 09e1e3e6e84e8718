package prune

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// used returns the number of manifests in the folder, and the size of the manifests and their blobs after a garbage
// collection.
func (s *registryFolder) used() (manifests int, bytes int64) {
	s.Helper()
	var index ocispec.Index
	data, err := os.ReadFile(filepath.Join(s.dir, ocispec.ImageIndexFile))
	s.must(err)
	s.must(json.Unmarshal(data, &index))
	counted := map[digest.Digest]bool{}
	for _, m := range index.Manifests {
		if counted[m.Digest] {
			continue
		}
		data, err := os.ReadFile(filepath.Join(s.dir, ocispec.ImageBlobsDir, "sha256", m.Digest.Encoded()))
		if errors.Is(err, os.ErrNotExist) {
			continue // already removed, although the folder's index still lists it
		}
		s.must(err)
		manifests++
		var manifest ocispec.Manifest
		s.must(json.Unmarshal(data, &manifest))
		for _, d := range append([]ocispec.Descriptor{m, manifest.Config}, manifest.Layers...) {
			if !counted[d.Digest] {
				counted[d.Digest], bytes = true, bytes+d.Size
			}
		}
	}
	return manifests, bytes
}

// For two months, two runtimes get new modules every day, and a third runtime exists for a week. Pruning must limit the
// registry's size.
func TestDailyPruningBoundsRegistrySize(t *testing.T) {
	const days, keep = 60, 10
	s := newShelf(t)
	last := map[string]*bundle.Position{}
	var early, late int64
	published := 0
	for day := range days {
		now := ago(days - day)
		kymas := map[string][]digest.Digest{"a": nil, "b": nil}
		if day < 7 {
			kymas["passing"] = nil
		}
		for id := range kymas {
			documents := s.documents(fmt.Sprint(id, day, strings.Repeat("x", 4096)))
			last[id] = s.pushAfter(last[id], s.signer, documents, id, days-day)
			kymas[id] = []digest.Digest{last[id].Digest}
			published++
		}
		rules := Rules{Now: now, MinAge: keep * 24 * time.Hour, Limit: 1000}
		noted, err := ReadNotes(t.Context(), s.place)
		s.must(err)
		var gone []string
		if day == 20 {
			gone = []string{"passing"} // a folder cannot list repositories
		}
		planned := Decide(s.read(func(source *Source) { source.Kymas, source.Rules, source.Gone = kymas, rules, gone }),
			noted, rules)
		_, err = WriteNotes(t.Context(), s.place, planned.Noted)
		s.must(err)
		removed, err := Remove(t.Context(), s.place, planned)
		s.must(err)
		if slices.Contains(removed, false) {
			t.Fatalf("day %d: removed %v of %d manifests", day, removed, len(planned.Remove))
		}
		_, bytes := s.used()
		switch {
		case day >= 30 && day < 36:
			early = max(early, bytes)
		case day >= days-6:
			late = max(late, bytes)
		}
	}
	manifests, _ := s.used()
	if late > early+early/50 {
		t.Errorf("got %d bytes after one month and %d bytes after two months, want no growth", early, late)
	}
	if manifests > published {
		t.Errorf("got %d manifests for %d published bundles, want fewer", manifests, published)
	}
	for _, id := range []string{"a", "b", "passing"} {
		inventory := s.read(func(source *Source) { source.Kymas = map[string][]digest.Digest{id: nil} })
		there := false
		for _, r := range inventory.Runtimes {
			there = there || r.ID == id && len(r.Bundles) > 0
		}
		if want := id != "passing"; there != want {
			t.Errorf("%s has bundles: %t, want %t", id, there, want)
		}
	}
}
