package store

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// The programs never send range requests, so a partial response is a bug or an attack.
func TestPartialResponsesAreRefused(t *testing.T) {
	manifest, err := bundle.NewManifest(ocispec.Manifest{
		ArtifactType: bundle.ArtifactTypeRoot, Config: ocispec.DescriptorEmptyJSON,
		Layers: []ocispec.Descriptor{bundle.EmptyBlob().Descriptor},
	})
	if err != nil {
		t.Fatal(err)
	}
	content := manifest.Bytes
	bomb := new(bytes.Buffer)
	packer := gzip.NewWriter(bomb)
	for range 64 {
		if _, err := packer.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := packer.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		status   int
		header   map[string]string
		body     []byte
		accepted bool
	}{
		"complete response": {http.StatusOK, nil, content, true},
		"status 206 with the complete content": {http.StatusPartialContent, map[string]string{
			"Content-Range": "bytes 0-" + strconv.Itoa(len(content)-1) + "/" + strconv.Itoa(len(content)),
		}, content, false},
		"status 206 with a part":    {http.StatusPartialContent, nil, content[:10], false},
		"status 200 with a part":    {http.StatusOK, map[string]string{"Content-Range": "bytes 0-9/*"}, content[:10], false},
		"part that supports ranges": {http.StatusOK, map[string]string{"Accept-Ranges": "bytes"}, content[10:], false},
		"length of the complete blob": {http.StatusOK, map[string]string{
			"Content-Length": strconv.Itoa(len(content)),
		}, content[:10], false},
		"compressed content of 64 MiB":   {http.StatusOK, map[string]string{"Content-Encoding": "gzip"}, bomb.Bytes(), false},
		"status 416 without any content": {http.StatusRequestedRangeNotSatisfiable, nil, nil, false},
		"status 204 without any content": {http.StatusNoContent, nil, nil, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "" {
				t.Errorf("%s: the program requested a part", name)
			}
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Docker-Content-Digest", digest.FromBytes(content).String())
			for key, value := range c.header {
				w.Header().Set(key, value)
			}
			w.WriteHeader(c.status)
			if r.Method == http.MethodGet {
				_, _ = w.Write(c.body)
			}
		}))
		repository, err := quirkyStore(t, strings.TrimPrefix(server.URL, "http://"), Access{NoRetry: true}).
			Reading(t.Context(), "desired")
		if err != nil {
			t.Fatal(err)
		}
		fetched, err := Fetch(t.Context(), repository, bundle.TagDesired)
		if err == nil {
			if _, refused := bundle.ReadManifest(fetched, bundle.ArtifactTypeRoot); refused != nil {
				err = refused
			}
		}
		if (err == nil) != c.accepted {
			t.Errorf("%s: got a manifest of %d bytes, %v", name, len(fetched.Bytes), err)
		}
		data, err := FetchBlob(t.Context(), repository, ocispec.Descriptor{
			MediaType: "application/json", Digest: digest.FromBytes(content), Size: int64(len(content)),
		}, bundle.MaxDocumentBytes)
		if (err == nil) != c.accepted {
			t.Errorf("%s: got a blob of %d bytes, %v", name, len(data), err)
		}
		server.Close()
	}
}
