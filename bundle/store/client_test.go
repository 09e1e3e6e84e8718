package store

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestErrorsHideSignedBucketAddresses(t *testing.T) {
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Query().Get("X-Amz-Signature") != "secret" {
			t.Errorf("got bucket request %s, want a signature", request.URL)
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer bucket.Close()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		http.Redirect(w, request, bucket.URL+"/data?X-Amz-Signature=secret", http.StatusTemporaryRedirect)
	}))
	defer registry.Close()
	blob := bundle.NewBlob("application/octet-stream", []byte("x"))
	at, err := url.Parse(bucket.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, hosts := range map[string][]string{"bucket that is not in BlobHosts": nil,
		"bucket that denies the request": {at.Host}} {
		t.Run(name, func(t *testing.T) {
			registries, err := NewRegistries(Access{NoRetry: true, BlobHosts: hosts})
			if err != nil {
				t.Fatal(err)
			}
			repository, err := registries.Repository(strings.TrimPrefix(registry.URL, "http://") + "/fleet/content")
			if err != nil {
				t.Fatal(err)
			}
			_, headed := Has(t.Context(), repository, blob.Descriptor)
			_, fetched := FetchBlob(t.Context(), repository, blob.Descriptor, 10)
			for what, err := range map[string]error{"HEAD": headed, "GET": fetched} {
				if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), at.Host) {
					t.Errorf("%s: got error %v, want an error with the host and without the signature", what, err)
				}
			}
		})
	}
}

func TestUnavailableBucketErrorsContainItsAddress(t *testing.T) {
	bucket := httptest.NewServer(http.NotFoundHandler())
	bucket.Close()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		http.Redirect(w, request, bucket.URL+"/data?X-Amz-Signature=secret", http.StatusTemporaryRedirect)
	}))
	defer registry.Close()
	host := strings.TrimPrefix(bucket.URL, "http://")
	registries, err := NewRegistries(Access{NoRetry: true, BlobHosts: []string{host}})
	if err != nil {
		t.Fatal(err)
	}
	repository, err := registries.Repository(strings.TrimPrefix(registry.URL, "http://") + "/fleet/content")
	if err != nil {
		t.Fatal(err)
	}
	blob := bundle.NewBlob("application/octet-stream", []byte("x"))
	_, err = FetchBlob(t.Context(), repository, blob.Descriptor, 10)
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), bucket.URL+"/data") {
		t.Errorf("got error %v, want an error with the bucket's URL and without the signature", err)
	}
}
