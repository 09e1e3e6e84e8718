package component

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

const (
	scaler = "kyma-pull.dev/module/scaler"
	good   = "meta: {schemaVersion: v2}\ncomponent: {name: " + scaler + ", version: 1.0.0, resources: %s}\n"
)

type answers struct {
	manifest, contentType string
	blobs                 map[string]string
}

const (
	descriptorType = "application/vnd.ocm.software.component-descriptor.v2+yaml"
	configType     = "application/vnd.ocm.software.component.config.v1+json"
)

func describe(content string) string { return described(descriptorType, content) }

func described(mediaType, content string) string {
	return fmt.Sprintf(`{"mediaType":"`+mediaType+`","digest":%q,"size":%d}`, digest.FromString(content), len(content))
}

// validRegistry returns a registry with a valid component version. Each test case breaks one part of it.
func validRegistry(descriptor string, layers ...string) *answers {
	pointer := `{"componentDescriptorLayer":` + describe(descriptor) + `}`
	a := &answers{contentType: ocispec.MediaTypeImageManifest, blobs: map[string]string{}}
	all := []string{describe(descriptor)}
	for _, content := range append(layers, descriptor, pointer) {
		a.blobs[digest.FromString(content).String()] = content
	}
	for _, content := range layers {
		all = append(all, described("application/yaml", content))
	}
	a.manifest = fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":%s,"layers":[%s]}`,
		ocispec.MediaTypeImageManifest, described(configType, pointer), strings.Join(all, ","))
	return a
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, name, blob := strings.Cut(r.URL.Path, "/blobs/")
	content, known := a.blobs[name]
	switch {
	case !blob:
		content = a.manifest
		w.Header().Set("Content-Type", a.contentType)
		w.Header().Set("Docker-Content-Digest", digest.FromString(content).String())
	case !known:
		content = "{}" // this registry never returns "not found"
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	_, _ = w.Write([]byte(content))
}

func serve(t testing.TB, handler http.Handler) Source {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	registries, err := store.NewRegistries(store.Access{NoRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	return Registry{Registries: registries, Prefix: strings.TrimPrefix(server.URL, "http://") + "/modules"}
}

func read(t *testing.T, source Source) (Component, error) {
	t.Helper()
	return NewReader(Options{Sources: []Source{source}, Revalidate: time.Minute, RetryAfter: time.Minute}).
		Component(t.Context(), scaler, "1.0.0")
}

func blobs(names ...string) string {
	var list []string
	for i, name := range names {
		list = append(list,
			fmt.Sprintf("{name: %s, version: 1.0.%d, type: yaml, access: {type: localBlob, localReference: %q}}", name,
				i, digest.FromString("content")))
	}
	return fmt.Sprintf(good, "["+strings.Join(list, ", ")+"]")
}

func TestValidComponentVersionIsRead(t *testing.T) {
	a := validRegistry(blobs("raw-manifest", "tool", "tool"), "content")
	source := serve(t, a)
	reader := NewReader(Options{Sources: []Source{source}, Revalidate: time.Minute, RetryAfter: time.Minute})
	c, err := reader.Component(t.Context(), scaler, "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if c.Manifest.Digest != digest.FromString(a.manifest) || c.Repository != source.Repository(scaler) ||
		!strings.HasSuffix(c.Repository, "/modules/component-descriptors/"+scaler) {
		t.Errorf("got manifest %s in repository %s", c.Manifest.Digest, c.Repository)
	}
	raw, _ := c.Descriptor.Resource("raw-manifest")
	content, err := reader.Content(t.Context(), c, raw, nil)
	if err != nil || content.Digest != digest.FromString("content") || content.SizeBytes != int64(len("content")) ||
		content.Repository != c.Repository {
		t.Errorf("got raw-manifest %+v and error %v", content, err)
	}
}

func TestInvalidRegistryResponsesAreRefused(t *testing.T) {
	whole := fmt.Sprintf(good, "[]")
	tweak := func(from, to string) func(*answers) {
		return func(a *answers) { a.manifest = strings.Replace(a.manifest, from, to, 1) }
	}
	replace := func(manifest string) func(*answers) {
		return func(a *answers) { a.manifest = manifest }
	}
	for name, c := range map[string]struct {
		descriptor string
		change     func(*answers)
		want       string
	}{
		"HTML page": {whole, replace("<html>"), "manifest: "},
		"unknown content type": {
			whole, func(a *answers) { a.contentType = "application/json" }, "manifest: the registry sent media type",
		},
		"manifest with the content type of an index": {
			whole, func(a *answers) { a.contentType = ocispec.MediaTypeImageIndex }, "index: mediaType is",
		},
		"mediaType that differs from the content type": {
			whole, tweak(ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex), "manifest: mediaType is",
		},
		"manifest and index at once": {
			whole, tweak(`"config"`, `"manifests":[],"config"`), "manifest: manifests must not be set",
		},
		"duplicate key": {
			whole, tweak(`"config"`, `"layers":[],"config"`), `duplicate field "layers"`,
		},
		"unsupported schema version": {
			whole, tweak(`"schemaVersion":2`, `"schemaVersion":1`), "manifest: schemaVersion 1",
		},
		"empty digest": {
			whole, replace(`{"schemaVersion":2,"config":{"digest":"","size":2},"layers":[{"digest":"","size":2}]}`),
			"manifest: config.digest",
		},
		"unsupported digest algorithm": {
			whole, replace(
				`{"schemaVersion":2,"config":{"digest":"md5:00","size":2},"layers":[{"digest":"md5:00","size":2}]}`),
			"manifest: config.digest",
		},
		"layer digest with a path": {
			whole, tweak(`"layers":[`, `"layers":[{"digest":"../../x","size":2},`), "manifest: layers[0].digest",
		},
		"negative size": {whole, tweak(`"size":`, `"size":-`), "manifest: config.size"},
		"manifest larger than the limit": {
			whole, func(a *answers) { a.manifest += strings.Repeat(" ", bundle.MaxManifestBytes) },
			"manifest is larger than 1048576 bytes",
		},
		"config larger than the limit": {whole, tweak(`"size":`, `"size":9`+strings.Repeat("0", 9)), "config: "},
		"config without a descriptor layer": {
			whole, func(a *answers) { a.point("{}") }, "config: componentDescriptorLayer",
		},
		"config with an unknown descriptor layer": {
			whole, func(a *answers) { a.point(`{"componentDescriptorLayer":` + describe("elsewhere") + `}`) },
			"config: componentDescriptorLayer",
		},
		"config that is not JSON": {whole, func(a *answers) { a.point("[") }, "config: "},
		"descriptor that differs from its digest": {
			whole, func(a *answers) { a.swap(whole, strings.ToUpper(whole)) }, "descriptor layer: ",
		},
		"descriptor for a different component": {
			strings.Replace(whole, "scaler", "mailer", 1), nil,
			"component.name is \"kyma-pull.dev/module/mailer\", must be",
		},
		"descriptor for a different version": {
			strings.Replace(whole, "1.0.0", "1.0.1", 1), nil, `component.version is "1.0.1", must be "1.0.0"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := validRegistry(c.descriptor)
			if c.change != nil {
				c.change(a)
			}
			_, err := read(t, serve(t, a))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), scaler+":1.0.0") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func (a *answers) point(pointer string) {
	_, rest, _ := strings.Cut(a.manifest, `"layers"`)
	a.blobs[digest.FromString(pointer).String()] = pointer
	a.manifest = fmt.Sprintf(`{"schemaVersion":2,"config":%s,"layers"%s`, described(configType, pointer), rest)
}

func (a *answers) swap(content, other string) { a.blobs[digest.FromString(content).String()] = other }

func TestInvalidNamesAreNotRequested(t *testing.T) {
	for _, c := range [][2]string{{"../../etc", "1.0.0"}, {"scaler", "1.0.0"}, {scaler, "latest"}, {scaler, "../x"},
		{scaler, ""}, {scaler, digest.FromString("").String()}} {
		// The source has no Registries, so a request would panic.
		reader := NewReader(Options{
			Sources: []Source{Registry{Prefix: "nowhere"}}, Revalidate: time.Minute, RetryAfter: time.Minute,
		})
		if _, err := reader.Component(t.Context(), c[0], c[1]); err == nil {
			t.Errorf("invalid component version %s:%s is accepted", c[0], c[1])
		}
	}
}

func TestHelmRepositoryCannotRedirectToAnotherHost(t *testing.T) {
	index := "entries: {}\n"
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/moved/") {
			http.Redirect(to, r, "/admin/secret", http.StatusFound)
			return
		}
		_, _ = to.Write([]byte(index))
	}))
	defer server.Close()
	reader := NewReader(Options{HelmRepositories: []string{server.URL + "/charts", server.URL + "/moved"}})
	if _, err := reader.helmChart(t.Context(), server.URL+"/moved", "a", "1"); err == nil ||
		!strings.Contains(err.Error(), "is not an allowed Helm repository") {
		t.Errorf("redirect to another host: got error %v, want a refusal", err)
	}
	index = "x: &a " + strings.Repeat("A", 1000) + "\nentries: {}\ny: [*a, *a]\n"
	if _, err := reader.helmChart(t.Context(), server.URL+"/charts", "a", "1"); err == nil ||
		!strings.Contains(err.Error(), "alias") {
		t.Errorf("index with aliases: got %v", err)
	}
}

func TestHelmRepositoryIsReadAgainAfterRetryAfter(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			to.Header().Set("Retry-After", "1")
			to.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = to.Write([]byte("entries: {}\n"))
	}))
	defer server.Close()
	reader := NewReader(Options{HelmRepositories: []string{server.URL}})
	_, err := reader.helmChart(t.Context(), server.URL, "a", "1")
	if requests != 2 || err == nil || !strings.Contains(err.Error(), "the index does not contain the chart") {
		t.Errorf("got %d requests and error %v, want 2 requests and an index without the chart", requests, err)
	}
}
