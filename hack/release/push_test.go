package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote"
)

// packCharts creates a release that contains the charts but no images.
func packCharts(t *testing.T, version string) *release {
	t.Helper()
	scratch := t.TempDir()
	r := &release{
		version: version,
		dir:     t.TempDir(),
		commit:  commit{"commit", time.Unix(1, 0)},
		built:   map[string]ocispec.Descriptor{},
	}
	to, err := layout(scratch)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		index := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Annotations: r.annotations(program)}
		index.SchemaVersion = 2
		if r.built[program], err = push(t.Context(), to, ocispec.MediaTypeImageIndex, index,
			program+":"+version); err != nil {
			t.Fatal(err)
		}
		if err := r.attach(t.Context(), to, r.built[program], mediaTypeBill, []byte(`{"bill":"`+program+`"}`),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir("../..")
	if err := r.buildCharts(t.Context(), scratch); err != nil {
		t.Fatal(err)
	}
	if err := r.packLayout(scratch); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPushUsesPasswordFromEnvironment(t *testing.T) {
	t.Setenv("REGISTRY_USER", "ada")
	t.Setenv("REGISTRY_PASSWORD", "opensesame")
	r := packCharts(t, "0.3.0")
	var refused, accepted atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if user, password, _ := request.BasicAuth(); user != "ada" || password != "opensesame" {
			refused.Add(1)
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		accepted.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	r.images = "localhost:" + server.URL[strings.LastIndex(server.URL, ":")+1:] + "/kyma-pull"
	if err := r.push(t.Context()); err == nil || accepted.Load() == 0 || refused.Load() == 0 {
		t.Errorf("got error %v after %d requests with the password and %d without, want an error after both",
			err, accepted.Load(), refused.Load())
	}
}

func TestPushUsesDefaultChartNames(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // a folder without credentials
	r := packCharts(t, "0.3.0")
	var err error
	if r.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		if err := os.WriteFile(r.billOf(program), []byte(`{"bomFormat":"CycloneDX"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.writeAttestations(t.Context(), signerOf{r.key}); err != nil {
		t.Fatal(err)
	}
	r.images = newRegistry(t) + "/kyma-pull"
	args := []string{"-push", "-version", "v0.3.0", "-output", r.dir, "-images", r.images}
	for range 2 { // the second push changes nothing
		if err := run(t.Context(), args); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"kcp-publisher", "skr-agent", "charts/kcp-publisher", "charts/skr-agent"} {
		repository, err := remote.NewRepository(r.images + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		repository.PlainHTTP = true
		if _, err := repository.Resolve(t.Context(), "0.3.0"); err != nil {
			t.Errorf("resolve %s:0.3.0 in the registry: %v", name, err)
		}
	}
	for _, program := range programs {
		types := referrerTypes(t, r.images+"/"+program, r.built[program].Digest.String())
		want := []string{
			mediaTypeBill + " ",
			mediaTypeBundle + " " + predicateBill,
			mediaTypeBundle + " " + predicateSign,
			mediaTypeBundle + " " + predicateSLSA,
		}
		if !slices.Equal(types, want) {
			t.Errorf("%s: got referrers %q, want %q", program, types, want)
		}
		if values := string(read(t, filepath.Join("charts", program), "values.yaml")); !strings.Contains(values,
			"repository: ghcr.io/kyma-pull/"+program+"\n") {
			t.Errorf("chart %s uses an image from another repository", program)
		}
	}

	t.Run("a release that exists in the registry is not replaced", func(t *testing.T) {
		r.commit.time = time.Unix(2, 0)
		other := t.TempDir()
		to, err := layout(other)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := push(t.Context(), to, ocispec.MediaTypeImageIndex,
			ocispec.Index{MediaType: ocispec.MediaTypeImageIndex}, "kcp-publisher:0.3.0"); err != nil {
			t.Fatal(err)
		}
		if err := r.packLayout(other); err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), "build another version") {
			t.Errorf("got error %v, want the advice to build another version", err)
		}
	})
	t.Run("a release that was not built is not pushed", func(t *testing.T) {
		if err := run(t.Context(), []string{"-push", "-version", "9.9.9", "-output", r.dir}); err == nil ||
			!strings.Contains(err.Error(), "build it first") {
			t.Errorf("got error %v, want the advice to build the release first", err)
		}
	})
}
