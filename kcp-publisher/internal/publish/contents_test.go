package publish

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

func TestDescriptorCannotExemptItselfFromSignaturePolicy(t *testing.T) {
	f := newFleet(t)
	p := f.started()
	descriptor := ocm.Descriptor{Schema: ocm.SchemaV2, Name: "somebody.example/module", Version: "1.0.0",
		Resources: []ocm.Resource{{
			Element: ocm.Element{Name: "raw-manifest", Version: "1.0.0"}, Type: "yaml",
			Access: ocm.Access{Type: "none"},
		}}}
	const refusal = "exempts this name, but the name comes only from the unsigned descriptor"
	for name, c := range map[string]struct {
		requires    func(string) bool
		namesItself bool
		refused     bool
	}{
		"no signature policy":                        {nil, true, false},
		"unsigned, named only in its own descriptor": {func(string) bool { return false }, true, true},
		"unsigned, named in the catalog":             {func(string) bool { return false }, false, false},
		"signed, named only in its own descriptor":   {func(string) bool { return true }, true, false},
	} {
		p.RequiresSignature = c.requires
		need := resolve.ComponentNeed{
			ComponentRef: resolve.ComponentRef{Component: descriptor.Name, Version: descriptor.Version}, Descriptor: &descriptor,
			IsSelfNamed: c.namesItself,
		}
		_, err := p.readContent(t.Context(), need)
		if refused := err != nil && strings.Contains(err.Error(), refusal); refused != c.refused {
			t.Errorf("%s: got %v, want refused %t", name, err, c.refused)
		}
	}
}

// components is a component repository in memory.
type components struct{ *store.Memory }

func (c components) Open(name string) (oras.ReadOnlyTarget, error) {
	return c.Reading(context.Background(), name)
}
func (components) Repository(string) string { return "" }

// add adds a component version with one manifest file.
func (c components) add(t testing.TB, name, version, file string) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	repository, err := c.Memory.Repository(t.Context(), name)
	must(err)
	push := func(mediaType, data string) ocispec.Descriptor {
		blob := bundle.NewBlob(mediaType, []byte(data))
		must(store.PushBlob(t.Context(), repository, blob))
		return blob.Descriptor
	}
	content := push("application/yaml", file)
	descriptor := push("application/vnd.ocm.software.component-descriptor.v2+yaml",
		"meta: {schemaVersion: v2}\ncomponent:\n  name: "+name+"\n  version: "+version+
			"\n  resources:\n  - {name: raw-manifest, version: "+version+
			", type: yaml, access: {type: localBlob, localReference: \""+content.Digest.String()+
			"\", mediaType: application/yaml}}\n")
	pointer, err := json.Marshal(map[string]any{"componentDescriptorLayer": descriptor})
	must(err)
	config := push("application/vnd.ocm.software.component.config.v1+json", string(pointer))
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageManifest, "config": config,
		"layers": []ocispec.Descriptor{descriptor, content},
	})
	must(err)
	must(store.PushManifest(t.Context(), repository, bundle.NewBlob(ocispec.MediaTypeImageManifest, manifest),
		ocm.Tag(version)))
}

// requestCounter counts how often a repository is opened.
type requestCounter struct {
	store.Store
	times int
}

func (a *requestCounter) Repository(ctx context.Context, name string) (oras.Target, error) {
	a.times++
	return a.Store.Repository(ctx, name)
}

func TestContentsAreCachedBriefly(t *testing.T) {
	f := newFleet(t)
	source := components{store.NewMemory()}
	const name = "example.com/scaler"
	source.add(t, name, "1.0.0", "kind: ConfigMap\n")
	p := f.started()
	p.Components = component.NewReader(component.Options{
		Sources: []component.Source{source}, Revalidate: time.Hour, RetryAfter: time.Hour,
	})
	place := &requestCounter{Store: p.Place}
	p.Place = place
	fetch := func(ref resolve.ComponentRef) (resolve.Content, int) {
		t.Helper()
		before := place.times
		contents, _, _, err := p.readContents(t.Context(), []resolve.ComponentNeed{{ComponentRef: ref}})
		if err != nil {
			t.Fatal(err)
		}
		return contents[ref], place.times - before
	}
	ref := resolve.ComponentRef{Component: name, Version: "1.0.0"}
	first, requests := fetch(ref)
	if first.Err != nil || requests == 0 || first.Install.Digest == "" {
		t.Fatalf("first lookup: got %d requests and content %+v", requests, first)
	}
	if again, requests := fetch(ref); requests != 0 || again.Install.Digest != first.Install.Digest {
		t.Errorf("second lookup: got %d requests and content %+v, want a cached content", requests, again)
	}
	f.now = f.now.Add(contentCacheTime)
	if _, requests := fetch(ref); requests == 0 {
		t.Error("after contentCacheTime: the content was not looked up again")
	}
	p.Components.RequestRecheck()
	if _, requests := fetch(ref); requests == 0 {
		t.Error("after Recheck: the content was not looked up again")
	}
	f.now = f.now.Add(-time.Hour)
	if _, requests := fetch(ref); requests == 0 {
		t.Error("clock set back: the content was not looked up again")
	}
	if other, _ := fetch(resolve.ComponentRef{Component: name, Version: "2.0.0"}); other.Err == nil {
		t.Errorf("missing version: got %+v, want an error", other)
	}
}

func TestEqualRequestsShareOneContentLookup(t *testing.T) {
	f := newFleet(t)
	p := f.started()
	snapshot, err := catalog.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	poll := func(asked string) time.Time {
		t.Helper()
		needed, err := p.neededContents(t.Context(), keyFor(asked), resolve.Request{}, snapshot)
		if err != nil {
			t.Fatal(err)
		}
		return needed.readAt
	}
	first := poll("one")
	f.now = f.now.Add(contentCacheTime / 2)
	if again := poll("one"); !again.Equal(first) {
		t.Error("a cached result was looked up again")
	}
	if other := poll("two"); !other.Equal(f.now) {
		t.Error("another request got the result of the first request")
	}
	p.Components.RequestRecheck()
	if again := poll("one"); !again.Equal(f.now) {
		t.Error("after Recheck: the content was not looked up again")
	}
	f.now = f.now.Add(contentCacheTime)
	if again := poll("one"); !again.Equal(f.now) {
		t.Error("after contentCacheTime: the content was not looked up again")
	}
}
