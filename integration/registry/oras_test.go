package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
)

func repository(t *testing.T, r *Registry, name string) *remote.Repository {
	t.Helper()
	repo, err := remote.NewRepository(r.Host() + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	repo.PlainHTTP = true
	// The default client retries requests, which would hide injected faults.
	repo.Client = http.DefaultClient
	return repo
}

func TestRegistryMountsBlobsAndServesManifests(t *testing.T) {
	r, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	ctx := t.Context()
	shared, one := repository(t, r, "fleet/content"), repository(t, r, "fleet/runtimes/one")

	payload := []byte("shared content")
	layer := content.NewDescriptorFromBytes("application/octet-stream", payload)
	if err := shared.Push(ctx, layer, bytes.NewReader(payload)); err != nil {
		t.Fatal(err)
	}
	before := r.Traffic()
	notMounted := func() (io.ReadCloser, error) { return nil, errors.New("the registry wants the bytes again") }
	if err := one.Mount(ctx, layer, "fleet/content", notMounted); err != nil {
		t.Fatal(err)
	}
	after := r.Traffic()
	if mounts := after[Request{http.MethodPost, Uploads}] - before[Request{http.MethodPost, Uploads}]; mounts != 1 ||
		after.Writes() != before.Writes()+1 {
		t.Errorf("got %d mounts in %d writes, want one write for one mount", mounts, after.Writes()-before.Writes())
	}

	manifest, err := oras.PackManifest(ctx, one, oras.PackManifestVersion1_1, "application/vnd.example",
		oras.PackManifestOptions{Layers: []ocispec.Descriptor{layer}})
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Tag(ctx, manifest, "desired"); err != nil {
		t.Fatal(err)
	}
	if got, err := content.FetchAll(ctx, one, layer); err != nil || !bytes.Equal(got, payload) {
		t.Errorf("pulled %q: %v", got, err)
	}
	if got, err := one.Resolve(ctx, "desired"); err != nil || got.Digest != manifest.Digest {
		t.Errorf("resolved %v: %v", got, err)
	}
	if err := one.Delete(ctx, manifest); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := one.Resolve(ctx, "desired"); !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("get the manifest after its deletion: got error %v, want not found", err)
	}
}

func TestInterceptReplacesRegistryResponses(t *testing.T) {
	r, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	ctx := t.Context()
	repo := repository(t, r, "fleet/runtimes/one")
	payload := []byte("content")
	layer := content.NewDescriptorFromBytes("application/octet-stream", payload)
	if err := repo.Push(ctx, layer, bytes.NewReader(payload)); err != nil {
		t.Fatal(err)
	}
	r.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
		if request.Method != http.MethodGet {
			return false
		}
		fmt.Fprint(w, "garbage")
		return true
	})
	if _, err := content.FetchAll(ctx, repo, layer); !errors.Is(err, content.ErrMismatchedDigest) {
		t.Errorf("read a blob replaced by garbage of the same length: got error %v, want a digest mismatch", err)
	}
	if there, err := repo.Exists(ctx, layer); err != nil || !there {
		t.Errorf("a request that is not intercepted: blob exists is %v, error %v", there, err)
	}
	r.Intercept(nil)
	if got, err := content.FetchAll(ctx, repo, layer); err != nil || digest.FromBytes(got) != layer.Digest {
		t.Errorf("read the blob after the interception ended: got %q and error %v", got, err)
	}

	observed := make(chan string, 10) // larger than the number of requests, so that Observe never blocks
	r.Observe(func(request *http.Request, status int) { observed <- fmt.Sprint(request.Method, " ", status) })
	missing := content.NewDescriptorFromBytes("application/octet-stream", []byte("missing"))
	for want, descriptor := range map[string]ocispec.Descriptor{"HEAD 200": layer, "HEAD 404": missing} {
		if _, err := repo.Exists(ctx, descriptor); err != nil {
			t.Error(err)
		}
		select {
		case got := <-observed:
			if got != want {
				t.Errorf("observed %q, want %q", got, want)
			}
		case <-time.After(time.Minute):
			t.Errorf("request %s was not observed", want)
		}
	}
}

func TestRestartedRegistryKeepsItsPortAndFolder(t *testing.T) {
	dir := t.TempDir()
	first, err := Start(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	payload := []byte("kept")
	layer := content.NewDescriptorFromBytes("application/octet-stream", payload)
	if err := repository(t, first, "fleet/content").Push(t.Context(), layer, bytes.NewReader(payload)); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Start(t.Context(), Options{Dir: dir, Address: first.Host()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Close() })
	if second.Host() != first.Host() {
		t.Errorf("the restarted registry is at %s, want %s", second.Host(), first.Host())
	}
	if there, err := repository(t, second, "fleet/content").Exists(t.Context(), layer); err != nil || !there {
		t.Errorf("blob after the restart: exists is %v, error %v", there, err)
	}
}

func TestRequestsAreClassifiedByTheEndOfTheirPath(t *testing.T) {
	for path, want := range map[string]Class{
		"/v2/":                             Other,
		"/v2/fleet/runtimes/one/tags/list": Tags,
		"/v2/manifests/blobs/manifests/x":  Manifests,
		"/v2/fleet/blobs/sha256:00":        Blobs,
		"/v2/fleet/blobs/uploads/":         Uploads,
		"/v2/fleet/blobs/uploads/0-1-2":    Uploads,
		"/v2/fleet/referrers/sha256:00":    Other,
	} {
		if got := classify(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
