package component

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// largeComponents is a registry in which each component has a descriptor of about 1 MiB. The component "top" references
// the others.
type largeComponents struct{ references int }

func (l largeComponents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, path, _ := strings.Cut(r.URL.Path, descriptorsPath)
	name, _, _ := strings.Cut(path, "/manifests/")
	name, _, _ = strings.Cut(name, "/blobs/")
	var references []string
	for i := 0; name == "example.org/top" && i < l.references; i++ {
		references = append(references,
			fmt.Sprintf("{name: r%d, version: 1.0.0, componentName: %s}", i, largeComponent(i)))
	}
	validRegistry(fmt.Sprintf("meta: {schemaVersion: v2}\n"+
		"component: {name: %s, version: 1.0.0, labels: [{name: a, value: %s}], "+
		"componentReferences: [%s]}\n", name, strings.Repeat("v", ocm.MaxDescriptorBytes-64<<10),
		strings.Join(references, ", "))).ServeHTTP(w, r)
}

func largeComponent(i int) string { return fmt.Sprintf("example.org/c%c%c", 'a'+i/26, 'a'+i%26) }

func TestComponentReferencesAreLimitedInBytes(t *testing.T) {
	reader := NewReader(Options{
		Sources: []Source{serve(t, largeComponents{references: 30})}, Revalidate: revalidate, RetryAfter: retryAfter,
	})
	top, err := reader.Component(t.Context(), "example.org/top", "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	_, err = reader.Closure(t.Context(), top)
	if err == nil || !strings.Contains(err.Error(), "use smaller descriptors") {
		t.Errorf("got error %v for 30 MiB of descriptors, want a limit", err)
	}
	small := largeComponents{references: 3}
	reader = NewReader(Options{Sources: []Source{serve(t, small)}, Revalidate: revalidate, RetryAfter: retryAfter})
	if top, err = reader.Component(t.Context(), "example.org/top", "1.0.0"); err != nil {
		t.Fatal(err)
	}
	if all, err := reader.Closure(t.Context(), top); err != nil || len(all) != 4 {
		t.Errorf("got %d components and error %v for 4 MiB of descriptors, want 4", len(all), err)
	}
}

func TestCachedComponentsAreLimitedInBytes(t *testing.T) {
	reader := NewReader(Options{
		Sources: []Source{serve(t, largeComponents{})}, Revalidate: revalidate, RetryAfter: retryAfter,
	})
	const read = 40
	for i := range read {
		if _, err := reader.Component(t.Context(), largeComponent(i), "1.0.0"); err != nil {
			t.Fatal(err)
		}
	}
	cached, bytes := reader.found.Size()
	if cached == read || cached < read/4 || bytes > maxFoundBytes {
		t.Errorf("the cache contains %d of %d components with %d bytes, want at most %d bytes", cached, read, bytes,
			maxFoundBytes)
	}
}

func TestChangedVersionIsRefusedAfterCacheEviction(t *testing.T) {
	w, reader, c := newWatched(t)
	if err := ask(t, reader); err != nil {
		t.Fatal(err)
	}
	reader.found.Prune(func(*entry) bool { return true })
	w.manifest = strings.Replace(w.manifest, `{"schemaVersion"`, `{"annotations":{"a":"b"},"schemaVersion"`, 1)
	c.at = c.at.Add(revalidate)
	if err := ask(t, reader); err == nil || !strings.Contains(err.Error(), "changed, but the version did not") {
		t.Errorf("got error %v, want a refusal of the changed version", err)
	}
}

// withIndexes is a registry that serves indexes in addition to a component version.
type withIndexes struct {
	*answers
	indexes map[string]string
}

func (i withIndexes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, reference, _ := strings.Cut(r.URL.Path, "/manifests/")
	if content, ok := i.indexes[reference]; ok {
		(&answers{manifest: content, contentType: ocispec.MediaTypeImageIndex}).ServeHTTP(w, r)
		return
	}
	i.answers.ServeHTTP(w, r)
}

func TestCopiedComponentManifestsAreLimitedInBytes(t *testing.T) {
	for count, want := range map[int]bool{2: true, 24: false} {
		registry := withIndexes{validRegistry(fmt.Sprintf(good, "[]")), map[string]string{}}
		var manifest ocispec.Manifest
		require.NoError(t, json.Unmarshal([]byte(registry.manifest), &manifest))
		for i := range count {
			index := fmt.Sprintf(`{"schemaVersion": 2, "manifests": [], "annotations": {"a": "%d%s"}}`, i,
				strings.Repeat("x", 3<<20))
			d := ocispec.Descriptor{
				MediaType: ocispec.MediaTypeImageIndex, Digest: digest.FromString(index), Size: int64(len(index)),
			}
			registry.indexes[d.Digest.String()] = index
			manifest.Layers = append(manifest.Layers, d)
		}
		text, err := json.Marshal(manifest)
		require.NoError(t, err)
		registry.manifest = string(text)
		c, err := read(t, serve(t, registry))
		require.NoError(t, err)
		target := store.NewMemory()
		_, err = c.CopyTo(t.Context(), target)
		if want {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "the manifests of the component version are more than 64 MiB")
		}
	}
}

// pinned is an in-memory record of digests.
type pinned map[string]digest.Digest

func (p pinned) Pinned(name string) (digest.Digest, bool) {
	d, ok := p[name]
	return d, ok
}

func (p pinned) Pin(name string, d digest.Digest) error {
	if _, known := p[name]; !known {
		p[name] = d
	}
	return nil
}

func TestMemoryForReferenceDigestsIsLimited(t *testing.T) {
	reader := NewReader(Options{Pins: pinned{}})
	c := Component{Descriptor: ocm.Descriptor{Name: "example.org/" + strings.Repeat("a", 200), Version: "1.0.0"}}
	resource := func(i int) (r ocm.Resource) {
		r.Name = fmt.Sprintf("r-%d", i)
		return r
	}
	first, other := digest.FromString("first"), digest.FromString("other")
	for i := range 2 * maxDigestsBytes / 500 {
		if err := reader.recordDigest(c, resource(i), "reference", first); err != nil {
			t.Fatal(err)
		}
	}
	if entries, bytes := reader.firstDigests.Size(); bytes > maxDigestsBytes || entries < 1000 {
		t.Errorf("got %d digests with %d bytes, want at most %d bytes", entries, bytes, maxDigestsBytes)
	}
	if err := reader.recordDigest(c, resource(0), "reference", other); err == nil {
		t.Error("another digest is accepted for a reference that is not in memory anymore")
	}
}
