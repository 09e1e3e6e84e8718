package store

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func TestRequestToASlowRegistryTimesOut(t *testing.T) {
	blob := bundle.NewBlob("application/x-tar", []byte(strings.Repeat("x", 1<<20)))
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", "1048576")
		for {
			if _, err := w.Write([]byte("x")); err != nil {
				close(release)
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				close(release)
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}))
	defer server.Close()
	registries, err := NewRegistries(Access{PlainHTTP: true, NoRetry: true, RequestTimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	repository, err := registries.Repository(strings.TrimPrefix(server.URL, "http://") + "/fleet/content")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FetchBlob(t.Context(), repository,
		ocispec.Descriptor{Digest: blob.Descriptor.Digest, Size: blob.Descriptor.Size},
		bundle.MaxLayerBytes); err == nil || refusal.Of(err) != nil {
		t.Errorf("got %v, want an error that is not a refusal of the content", err)
	}
	<-release
}
