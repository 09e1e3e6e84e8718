package component

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // registers the storage driver
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"
	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

type world struct {
	*testing.T
	host       string
	registries *store.Registries
	requests   atomic.Int32
	wipe       func() // deletes all content
}

func newWorld(t *testing.T) *world {
	t.Helper()
	logrus.SetOutput(io.Discard)
	config := &configuration.Configuration{Storage: configuration.Storage{
		"inmemory": configuration.Parameters{}, "maintenance": configuration.Parameters{
			"uploadpurging": map[any]any{"enabled": false},
		},
	}}
	config.Log.Level, config.Log.AccessLog.Disabled, config.HTTP.Secret = "panic", true, "loopback"
	w := &world{T: t}
	var app atomic.Pointer[handlers.App]
	w.wipe = func() { app.Store(handlers.NewApp(context.WithoutCancel(t.Context()), config)) }
	w.wipe()
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		app.Load().ServeHTTP(to, r)
	}))
	t.Cleanup(server.Close)
	w.host = strings.TrimPrefix(server.URL, "http://")
	var err error
	if w.registries, err = store.NewRegistries(store.Access{NoRetry: true}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) repository(name string) oras.Target {
	w.Helper()
	repository, err := w.registries.Repository(w.host + "/" + name)
	w.must(err)
	return repository
}

func (w *world) push(repository, mediaType, data string) ocispec.Descriptor {
	w.Helper()
	blob := bundle.NewBlob(mediaType, []byte(data))
	w.must(store.PushBlob(w.Context(), w.repository(repository), blob))
	return blob.Descriptor
}

func (w *world) artifact(repository, tag, configType string, layers ...ocispec.Descriptor) ocispec.Descriptor {
	w.Helper()
	return w.manifest(repository, tag, w.push(repository, configType, "{}"), nil, layers...)
}

func (w *world) manifest(
	repository, tag string, config ocispec.Descriptor, annotations map[string]string, layers ...ocispec.Descriptor,
) ocispec.Descriptor {
	w.Helper()
	data, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageManifest, "config": config, "layers": layers,
		"annotations": annotations,
	})
	w.must(err)
	blob := bundle.NewBlob(ocispec.MediaTypeImageManifest, data)
	w.must(store.PushManifest(w.Context(), w.repository(repository), blob, tag))
	return blob.Descriptor
}

// component pushes a component version. rest is YAML that is appended to the version's descriptor.
func (w *world) component(repository, name, version, rest string, layers ...ocispec.Descriptor) ocispec.Descriptor {
	w.Helper()
	return w.described(repository, version,
		fmt.Sprintf("meta: {schemaVersion: v2}\ncomponent:\n  name: %s\n  version: %q\n%s", name, version, rest),
		layers...)
}

func (w *world) described(repository, version, descriptor string, layers ...ocispec.Descriptor) ocispec.Descriptor {
	w.Helper()
	layer := w.push(repository, descriptorType, descriptor)
	pointer, err := json.Marshal(map[string]any{"componentDescriptorLayer": layer})
	w.must(err)
	return w.manifest(repository, ocm.Tag(version), w.push(repository, configType, string(pointer)), nil,
		append([]ocispec.Descriptor{layer}, layers...)...)
}

func (w *world) reader(change ...func(*Options)) *Reader {
	options := Options{
		Sources: []Source{Registry{Registries: w.registries, Prefix: w.host + "/modules"}}, Registries: w.registries,
		Revalidate: time.Hour, RetryAfter: time.Hour,
	}
	for _, c := range change {
		c(&options)
	}
	return NewReader(options)
}

func (w *world) place() store.Store {
	w.Helper()
	place, err := store.Open(w.host+"/fleet", w.registries)
	w.must(err)
	return place
}

const (
	home  = "modules/component-descriptors/" + scaler
	hello = "apiVersion: v1\n"
)

func (w *world) there(c Content) string {
	w.Helper()
	repository, err := w.registries.Repository(c.Repository)
	w.must(err)
	data, err := store.FetchBlob(w.Context(), repository, c.Descriptor(), bundle.MaxLayerBytes)
	w.must(err)
	return string(data)
}

func TestContentIsFoundForEveryAccessType(t *testing.T) {
	w := newWorld(t)
	sum := digest.FromString(hello)
	layer := w.push(home, "application/yaml", hello)
	first, second := w.push(home, "application/octet-stream", hello[:5]),
		w.push(home, "application/octet-stream", hello[5:])
	chart := w.artifact("charts/podinfo", "1.0.0", "application/vnd.cncf.helm.config.v1+json",
		w.push("charts/podinfo", mediaTypeChart, hello),
		w.push("charts/podinfo", "application/vnd.cncf.helm.chart.provenance.v1.prov", "signed"))
	w.artifact("modules/files", "v1", "application/x", w.push("modules/files", "application/yaml", hello))
	helm := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/stable/index.yaml":
			plain := sha256.Sum256([]byte(hello))
			fmt.Fprintf(to,
				"entries: {podinfo: [{version: 2.0.0, urls: [x]}, {version: 1.0.0, digest: %s, urls: "+
					"[podinfo-1.0.0.tgz]}]}", hex.EncodeToString(plain[:]))
		case "/stable/podinfo-1.0.0.tgz":
			fmt.Fprint(to, hello)
		default:
			http.NotFound(to, r)
		}
	}))
	t.Cleanup(helm.Close)
	for name, access := range map[string]string{
		"local blob": "{type: localBlob/v1, localReference: " + sum.String() +
			", mediaType: application/yaml, globalAccess: {type: ociBlob, ref: evil.example/x}}",
		"local blob in lifecycle-manager's format": "{type: localOciBlob, digest: " + sum.String() + "}",
		"local blob in several layers": "{type: localBlob, localReference: \"" + first.Digest.String() + "," +
			second.Digest.String() + "\", mediaType: application/yaml}",
		"OCI chart by tag": "{type: ociArtifact, imageReference: " + w.host +
			"/charts/podinfo:1.0.0}",
		"OCI chart by tag and digest": "{type: ociRegistry, imageReference: " + w.host +
			"/charts/podinfo:1.0.0@" + chart.Digest.String() + "}",
		"OCI chart by digest": "{type: OCIImage/v1, imageReference: " + w.host + "/charts/podinfo@" +
			chart.Digest.String() + "}",
		"relative reference": "{type: relativeOciReference, reference: \"modules/files:v1\"}",
		"blob in another repository": "{type: ociBlob, ref: " + w.host +
			"/modules/files, mediaType: application/yaml, digest: " + sum.String() + ", size: 15}",
		"chart in a Helm repository": "{type: helm/v1, helmRepository: " + helm.URL +
			"/stable, helmChart: \"podinfo:1.0.0\"}",
		"chart in a Helm repository in an OCI registry": "{type: helm, helmRepository: oci://" + w.host +
			"/charts, helmChart: podinfo, version: 1.0.0}",
	} {
		t.Run(name, func(t *testing.T) {
			w.component(home, scaler, "1.0.0", "  resources:\n  - {name: it, version: 1.0.0, type: blob, access: "+
				access+"}\n", layer, first, second)
			reader := w.reader(func(o *Options) { o.HelmRepositories = []string{helm.URL + "/stable"} })
			c, err := reader.Component(t.Context(), scaler, "1.0.0")
			w.must(err)
			content, err := reader.Content(t.Context(), c, c.Descriptor.Resources[0], w.place())
			w.must(err)
			if got := w.there(content); got != hello {
				t.Errorf("content in %s: got %q, want %q", content.Repository, got, hello)
			}
			again, err := reader.Content(t.Context(), c, c.Descriptor.Resources[0], w.place())
			if err != nil || again.Digest != content.Digest || again.Repository != content.Repository {
				t.Errorf("second call: got %+v and error %v, want %+v", again, err, content)
			}
			if data, err := reader.Bytes(t.Context(), c, c.Descriptor.Resources[0]); err != nil ||
				string(data) != hello {
				t.Errorf("Bytes: got %q and error %v, want %q", data, err, hello)
			}
		})
	}
}

func TestForbiddenOrWrongContentIsRefused(t *testing.T) {
	w := newWorld(t)
	layer := w.push(home, "application/yaml", hello)
	w.artifact("charts/podinfo", "1.0.0", "application/vnd.cncf.helm.config.v1+json",
		w.push("charts/podinfo", mediaTypeChart, hello))
	w.artifact("modules/two", "v1", "application/x", w.push("modules/two", "a/b", "a"),
		w.push("modules/two", "a/b", "b"))
	elsewhere := newWorld(t)
	var redirected string
	helm := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a/index.yaml":
			fmt.Fprint(to, "entries: {lying: [{version: 1.0.0, digest: "+strings.Repeat("f", 64)+
				", urls: [lying.tgz]}], away: [{version: 1.0.0, urls: [\"http://other.example/away.tgz\"]}]}")
		case "/a/lying.tgz":
			fmt.Fprint(to, hello)
		case "/r/index.yaml":
			http.Redirect(to, r, redirected, http.StatusFound)
		case "/endless/index.yaml":
			for i := 0; i < maxHelmIndexBytes/1024+2; i++ {
				if _, err := to.Write(make([]byte, 1024)); err != nil {
					return
				}
			}
		}
	}))
	t.Cleanup(helm.Close)
	redirected = "http://" + elsewhere.host + "/"
	wrong := ", digest: {hashAlgorithm: SHA-256, normalisationAlgorithm: %s, value: " + strings.Repeat("0", 64) + "}"
	for name, c := range map[string]struct{ access, digest, want string }{
		"unknown access type": {
			"{type: wget, URL: 'http://evil.example'}", "", `resource "it": access wget is not supported`,
		},
		"access type none": {"{type: none}", "", "access none is not supported"},
		"address in the publisher's network": {
			"{type: ociArtifact, imageReference: " + elsewhere.host + "/x:1}", "",
			"is an address in the publisher's network",
		},
		"address of the cloud's metadata service": {
			"{type: ociBlob, ref: 169.254.169.254/x, mediaType: a/b, digest: " + layer.Digest.String() + ", size: 1}",
			"", "is an address in the publisher's network",
		},
		"reference without a host": {
			"{type: ociArtifact, imageReference: podinfo}", "", "invalid reference",
		},
		"reference without a tag or digest": {
			"{type: ociArtifact, imageReference: " + w.host + "/charts/podinfo}", "", "reference has no tag or digest",
		},
		"artifact with two layers": {
			"{type: ociArtifact, imageReference: " + w.host + "/modules/two:v1}", "",
			"has 2 layers, and none is a chart",
		},
		"layer with a wrong digest": {
			"{type: localBlob, localReference: " + layer.Digest.String() + "}", "genericBlobDigest/v1",
			"but the component lists 0000",
		},
		"artifact with a wrong digest": {
			"{type: ociArtifact, imageReference: " + w.host + "/charts/podinfo:1.0.0}", "ociArtifactDigest/v1",
			"but the component lists 0000",
		},
		"Helm repository that is not allowed": {
			"{type: helm, helmRepository: 'http://charts.example', helmChart: 'a:1'}", "",
			"allow it with --helm-repositories",
		},
		"Helm repository next to an allowed one": {
			"{type: helm, helmRepository: '" + helm.URL + "/ab', helmChart: 'a:1'}", "",
			"allow it with --helm-repositories",
		},
		"Helm repository that leaves an allowed one with ..": {
			"{type: helm, helmRepository: '" + helm.URL + "/a/../b', helmChart: 'a:1'}", "",
			"allow it with --helm-repositories",
		},
		"Helm repository with a password": {
			"{type: helm, helmRepository: 'http://u:p@" + strings.TrimPrefix(helm.URL, "http://") +
				"/a', helmChart: 'a:1'}", "", "is not a URL of a Helm repository",
		},
		"chart that differs from its digest in the index": {
			"{type: helm, helmRepository: '" + helm.URL + "/a', helmChart: 'lying:1.0.0'}", "", "the index has ffff",
		},
		"chart at a location that is not allowed": {
			"{type: helm, helmRepository: '" + helm.URL + "/a', helmChart: 'away:1.0.0'}", "",
			"http://other.example is not an allowed",
		},
		"chart that does not exist": {
			"{type: helm, helmRepository: '" + helm.URL + "/a', helmChart: 'none:1.0.0'}", "",
			"the index does not contain the chart",
		},
		"Helm repository with a redirect": {
			"{type: helm, helmRepository: '" + helm.URL + "/r', helmChart: 'a:1'}", "",
			"redirected to " + elsewhere.host,
		},
		"Helm repository with an endless index": {
			"{type: helm, helmRepository: '" + helm.URL + "/endless', helmChart: 'a:1'}", "",
			"more than 33554432 bytes",
		},
		"chart without a version": {
			"{type: helm, helmRepository: '" + helm.URL + "/a', helmChart: 'a'}", "", "must be NAME:VERSION",
		},
	} {
		t.Run(name, func(t *testing.T) {
			stated := ""
			if c.digest != "" {
				stated = fmt.Sprintf(wrong, c.digest)
			}
			w.component(home, scaler, "1.0.0", "  resources:\n  - {name: it, version: 1.0.0, type: blob, access: "+
				c.access+stated+"}\n", layer)
			reader := w.reader(func(o *Options) {
				o.HelmRepositories = []string{helm.URL + "/a", helm.URL + "/r", helm.URL + "/endless"}
			})
			found, err := reader.Component(t.Context(), scaler, "1.0.0")
			w.must(err)
			before := elsewhere.requests.Load()
			_, err = reader.Content(t.Context(), found, found.Descriptor.Resources[0], w.place())
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "component "+scaler+":1.0.0") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if elsewhere.requests.Load() != before {
				t.Error("an unconfigured host was requested")
			}
		})
	}
}
