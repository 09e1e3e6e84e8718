package component

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/cache"
)

func local(name string, d digest.Digest) string {
	return fmt.Sprintf(
		"  resources:\n  - {name: %s, version: 1.0.0, type: yaml, access: {type: localBlob, localReference: %q, "+
			"mediaType: application/yaml}}\n", name, d)
}

func TestComponentsAreFoundByPathOrDigestMapping(t *testing.T) {
	w := newWorld(t)
	hashed := Registry{Registries: w.registries, Prefix: w.host + "/modules", Mapping: MappingDigest}
	repository := strings.TrimPrefix(hashed.Repository(scaler), w.host+"/")
	if _, sum, _ := strings.Cut(repository, "/"); len(sum) != 64 || sum != digest.FromString(scaler).Encoded() {
		t.Fatalf("got repository %s, want the SHA-256 digest of the name", repository)
	}
	layer := w.push(repository, "application/yaml", hello)
	w.component(repository, scaler, "1.0.0+ci.7", local("raw-manifest", layer.Digest), layer)
	reader := w.reader()
	c, err := reader.Component(t.Context(), scaler, "1.0.0+ci.7")
	w.must(err)
	content, err := reader.Content(t.Context(), c, c.Descriptor.Resources[0], w.place())
	w.must(err)
	if content.Repository != w.host+"/"+repository || w.there(content) != hello {
		t.Errorf("got content %+v, want it in the mapped repository", content)
	}
	if _, err := reader.Component(t.Context(), scaler, "2.0.0"); !errors.Is(err, ErrMissing) ||
		strings.Count(err.Error(), "/modules") != 1 {
		t.Errorf("missing version: got %v, want ErrMissing", err)
	}
}

func (w *world) index(repository, tag string, manifests ...ocispec.Descriptor) {
	w.Helper()
	data, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageIndex, "manifests": manifests,
	})
	w.must(err)
	w.must(store.PushManifest(w.Context(), w.repository(repository), bundle.NewBlob(ocispec.MediaTypeImageIndex, data),
		tag))
}

func TestComponentCanBeAnIndexWithArtifacts(t *testing.T) {
	w := newWorld(t)
	chart := w.artifact(home, "chart", "application/vnd.cncf.helm.config.v1+json", w.push(home, mediaTypeChart, hello))
	own := w.component(home, scaler, "1.0.0", local("podinfo", chart.Digest))
	marked := own
	marked.Annotations = map[string]string{annotationDescriptor: "true"}
	for name, manifests := range map[string][]ocispec.Descriptor{"descriptor in the first manifest": {own, chart},
		"descriptor in the annotated manifest": {chart, marked}} {
		t.Run(name, func(t *testing.T) {
			w.index(home, "1.0.0", manifests...)
			reader := w.reader()
			c, err := reader.Component(t.Context(), scaler, "1.0.0")
			w.must(err)
			content, err := reader.Content(t.Context(), c, c.Descriptor.Resources[0], w.place())
			w.must(err)
			if c.Manifest.MediaType != ocispec.MediaTypeImageIndex || w.there(content) != hello {
				t.Errorf("got content %+v of manifest %+v", content, c.Manifest)
			}
			fresh, err := store.Open(w.host+"/copies-of-"+strings.ReplaceAll(name, " ", "-"), w.registries)
			w.must(err)
			for range 2 {
				if _, err := c.CopyTo(t.Context(), fresh); err != nil {
					t.Errorf("copy the component: %v", err)
				}
			}
		})
	}
	w.index(home, "1.0.0", marked, marked)
	if _, err := w.reader().Component(t.Context(), scaler, "1.0.0"); err == nil ||
		!strings.Contains(err.Error(), "are both marked") {
		t.Errorf("two annotated manifests: got %v", err)
	}
	w.index(home, "1.0.0", slices.Repeat([]ocispec.Descriptor{own}, maxEntries+1)...)
	if _, err := w.reader().Component(t.Context(), scaler, "1.0.0"); err == nil ||
		!strings.Contains(err.Error(), "with 1001 manifests is not a component version") {
		t.Errorf("index with too many manifests: got %v", err)
	}
	w.index(home, "inner", own)
	inner, err := w.repository(home).Resolve(t.Context(), "inner")
	w.must(err)
	w.index(home, "1.0.0", inner)
	if _, err := w.reader().Component(t.Context(), scaler, "1.0.0"); err == nil ||
		!strings.Contains(err.Error(), "manifest: the registry sent media type") {
		t.Errorf("index in an index: got %v", err)
	}
	w.index(home, "1.0.0")
	if _, err := w.reader().Component(t.Context(), scaler, "1.0.0"); err == nil ||
		!strings.Contains(err.Error(), "with 0 manifests is not a component version") {
		t.Errorf("empty index: got error %v, want a refusal", err)
	}
}

func TestManifestForAnotherComponentIsRefused(t *testing.T) {
	w := newWorld(t)
	layer := w.push(home, descriptorType, fmt.Sprintf(good, "[]"))
	pointer, _ := json.Marshal(map[string]any{"componentDescriptorLayer": layer})
	w.manifest(home, "1.0.0", w.push(home, configType, string(pointer)),
		map[string]string{annotationVersion: "component-descriptors/" + scaler + ":1.0.1"}, layer)
	if _, err := w.reader().Component(t.Context(), scaler, "1.0.0"); err == nil ||
		!strings.Contains(err.Error(), annotationVersion) {
		t.Errorf("wrong version annotation: got error %v, want a refusal", err)
	}
}

func (w *world) refer(name string, to ...string) {
	w.Helper()
	rest := "  componentReferences:\n"
	for i, other := range to {
		rest += fmt.Sprintf("  - {name: r%d, version: 1.0.0, componentName: kyma-pull.dev/module/%s}\n", i, other)
	}
	w.component("modules/component-descriptors/kyma-pull.dev/module/"+name, "kyma-pull.dev/module/"+name, "1.0.0",
		rest+"  resources:\n  - {name: image, version: 1.0.0, type: ociImage, access: {type: ociArtifact, "+
			"imageReference: r.example/"+name+":1}}\n")
}

func TestEachReferenceIsFollowedOnce(t *testing.T) {
	w := newWorld(t)
	w.refer("top", "left", "right")
	w.refer("left", "base")
	w.refer("right", "base")
	w.refer("base")
	w.refer("round", "trip")
	w.refer("trip", "round")
	w.refer("lost", "nowhere")
	many := make([]string, maxComponents)
	for i := range many {
		many[i] = fmt.Sprintf("one-of-many-%d", i)
		w.refer(many[i])
	}
	w.refer("many", many...)
	for i := range maxDepth + 1 {
		w.refer(fmt.Sprintf("deep-%d", i), fmt.Sprintf("deep-%d", i+1))
	}
	reader := w.reader()
	closure := func(name string) ([]Component, error) {
		c, err := reader.Component(t.Context(), "kyma-pull.dev/module/"+name, "1.0.0")
		w.must(err)
		return reader.Closure(t.Context(), c)
	}
	all, err := closure("top")
	w.must(err)
	var names []string
	for _, c := range all {
		names = append(names, strings.TrimPrefix(c.Descriptor.Name, "kyma-pull.dev/module/"))
	}
	if !slices.Equal(names, []string{"top", "left", "base", "right"}) {
		t.Errorf("got components %v, want top, left, base, right", names)
	}
	if got := Images(all, false); !slices.Equal(got,
		[]string{"r.example/base:1", "r.example/left:1", "r.example/right:1", "r.example/top:1"}) {
		t.Errorf("got images %v, want base, left, right, top", got)
	}
	for name, want := range map[string]string{
		"round": "references form a cycle: kyma-pull.dev/module/round:1.0.0 → kyma-pull.dev/module/trip:1.0.0 → " +
			"kyma-pull.dev/module/round:1.0.0",
		"lost":   `reference "r0": component kyma-pull.dev/module/nowhere:1.0.0: component version not found`,
		"deep-0": "references are nested deeper than 16 levels",
		"many":   "more than 200 components are referenced",
	} {
		if _, err := closure(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

func TestImagesArePinnedByTheSignedDigest(t *testing.T) {
	value := strings.Repeat("a", 64)
	image := ocm.Resource{Type: "ociImage", Access: ocm.Access{
		Type: "ociArtifact", ImageReference: "r.example/op:1@sha256:" + strings.Repeat("b", 64),
	},
		Digest: &ocm.Digest{HashAlgorithm: "SHA-256", NormalisationAlgorithm: "ociArtifactDigest/v1", Value: value}}
	chart := image
	chart.Type = "helmChart"
	relative := ocm.Resource{
		Type: "ociImage", Access: ocm.Access{Type: "relativeOciReference", ImageReference: "own/op:2"},
	}
	descriptor := ocm.Descriptor{Resources: []ocm.Resource{image, chart, relative}}
	all := []Component{
		{Descriptor: descriptor}, {Descriptor: descriptor, source: Registry{Prefix: "moved.example:5000/sub/path"}},
	}
	if got := Images(all, false); !slices.Equal(got,
		[]string{"moved.example:5000/own/op:2", "r.example/op:1@sha256:" + value}) {
		t.Errorf("got images %v, want the relative and the pinned reference", got)
	}
	if got := Images(all, true); len(got) != 0 {
		t.Errorf("signed images with another reference: got %v, want none", got)
	}
	all[0].Descriptor.Resources[0].Name, all[0].Descriptor.Resources[0].Version = "op", "1"
	if got := Images(all, true); !slices.Equal(got, []string{"r.example/op:1@sha256:" + value}) {
		t.Errorf("signed images with their own reference: got %v", got)
	}
}

func TestLocalBlobsOfInlineDescriptorsAreFound(t *testing.T) {
	w := newWorld(t)
	transferred := "market/component-descriptors/" + scaler
	layer := w.push(transferred, "application/yaml", hello)
	contexts := fmt.Sprintf(
		"  repositoryContexts:\n  - {type: OCIRegistry, baseUrl: origin.example, subPath: built, "+
			"componentNameMapping: urlPath}\n  - {type: ociRegistry/v1, baseUrl: 'http://%s', subPath: market}\n",
		w.host)
	d, err := ocm.Decode([]byte("meta: {schemaVersion: v2}\ncomponent:\n  name: " + scaler + "\n  version: 1.0.0\n" +
		contexts + local("raw-manifest", layer.Digest)))
	w.must(err)
	find := func(reader *Reader) (Content, error) {
		c, err := reader.Inline(t.Context(), d)
		w.must(err)
		return reader.Content(t.Context(), c, c.Descriptor.Resources[0], w.place())
	}
	t.Run("blob in the last repository context", func(t *testing.T) {
		content, err := find(w.reader())
		if err != nil || content.Repository != w.host+"/"+transferred || content.MediaType != "application/yaml" ||
			w.there(content) != hello {
			t.Errorf("got content %+v and error %v", content, err)
		}
	})
	t.Run("no blob from an unconfigured internal registry", func(t *testing.T) {
		other := newWorld(t)
		_, err := find(other.reader())
		if err == nil || !strings.Contains(err.Error(), "was not found in") {
			t.Errorf("got error %v, want not found", err)
		}
	})
	t.Run("blob in a configured repository comes first", func(t *testing.T) {
		w.push(home, "application/yaml", hello)
		content, err := find(w.reader())
		if err != nil || content.Repository != w.host+"/"+home {
			t.Errorf("got content %+v and error %v", content, err)
		}
	})
}

func TestRestartDoesNotRereadVersions(t *testing.T) {
	const versions = 20
	w := newWorld(t)
	w.component(home, scaler, "1.0.0", "  resources: []\n")
	for i := 1; i < versions; i++ {
		w.component(home, scaler, fmt.Sprintf("1.0.%d", i), "  resources: []\n")
	}
	dir := t.TempDir()
	readAll := func() int32 {
		kept, err := cache.Open(dir, 64<<20)
		w.must(err)
		defer kept.Close()
		reader := w.reader(func(o *Options) { o.Cached, o.Pins = kept.Wrap, kept })
		before := w.requests.Load()
		for i := range versions {
			_, err := reader.Component(t.Context(), scaler, fmt.Sprintf("1.0.%d", i))
			w.must(err)
		}
		return w.requests.Load() - before
	}
	first, second := readAll(), readAll()
	if first < 3*versions || second != versions {
		t.Errorf("got %d requests before and %d after a restart, want one per version after it", first,
			second)
	}
	t.Run("changed version is refused", func(t *testing.T) {
		w.component(home, scaler, "1.0.0", "  labels: []\n  resources: []\n")
		kept, err := cache.Open(dir, 64<<20)
		w.must(err)
		defer kept.Close()
		_, err = w.reader(func(o *Options) { o.Cached, o.Pins = kept.Wrap, kept }).
			Component(t.Context(), scaler, "1.0.0")
		if err == nil || !strings.Contains(err.Error(), "changed, but the version did not: was sha256:") {
			t.Errorf("got error %v, want a changed version", err)
		}
	})
	t.Run("known version is used while the registry is unavailable", func(t *testing.T) {
		kept, err := cache.Open(dir, 64<<20)
		w.must(err)
		defer kept.Close()
		away := Registry{Registries: w.registries, Prefix: "127.0.0.1:1/modules"}
		reader := NewReader(Options{
			Sources: []Source{away}, Registries: w.registries, Revalidate: time.Hour, RetryAfter: time.Hour,
			Cached: kept.Wrap, Pins: kept,
		})
		if _, err := reader.Component(t.Context(), scaler, "1.0.7"); err != nil {
			t.Errorf("got error %v, want none", err)
		}
	})
}

func BenchmarkDescriptor(b *testing.B) {
	a := validRegistry(blobs("raw-manifest", "one", "two", "three"), "content")
	source := serve(b, a)
	for b.Loop() {
		if _, err := NewReader(Options{Sources: []Source{source}}).Component(b.Context(), scaler, "1.0.0"); err != nil {
			b.Fatal(err)
		}
	}
}
