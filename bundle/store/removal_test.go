package store

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestEmptyRepositoryListIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   []string
		err    string
	}{
		"repositories below the prefix": {
			`{"repositories":["fleet/content","fleet/runtimes/a","fleets/b","other"]}`,
			[]string{"content", "runtimes/a"}, "",
		},
		"empty list": {
			`{"repositories":[]}`, nil, "does not list repositories below this prefix",
		},
		"response without a list": {`{}`, nil, "does not list repositories below this prefix"},
		"list without repositories of the fleet": {
			`{"repositories":["fleets/b","other"]}`, nil, "does not list repositories below this prefix",
		},
		"response that is not JSON": {`<html>`, nil, "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/_catalog" {
					_, _ = w.Write([]byte(c.answer))
				}
			}))
			defer server.Close()
			registries, err := NewRegistries(Access{NoRetry: true})
			if err != nil {
				t.Fatal(err)
			}
			place, err := Open(strings.TrimPrefix(server.URL, "http://")+"/fleet", registries)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Repositories(t.Context(), place)
			if !slices.Equal(got, c.want) || (err != nil) != (c.err != "") || err != nil &&
				!strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q, %v, want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}

// A runtime can push any manifest as its report, so a manifest's content must not prevent its removal.
func TestRemovalDoesNotDependOnTheManifest(t *testing.T) {
	for name, content := range map[string]string{
		"a manifest over the size limit": `{"schemaVersion":2,"annotations":{"a":"` +
			strings.Repeat("x", bundle.MaxManifestBytes) + `"}}`,
		"a manifest with a subject": `{"schemaVersion":2,"subject":{"mediaType":"` + ocispec.MediaTypeImageManifest +
			`","digest":"` + digest.FromString("subject").String() + `","size":7}}`,
	} {
		var requests []string
		d := digest.FromString(content)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests = append(requests, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/v2/fleet/reports/a"))
			switch {
			case r.Method == http.MethodDelete:
				w.WriteHeader(http.StatusAccepted)
			case strings.HasSuffix(r.URL.Path, "/manifests/"+d.String()):
				w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
				_, _ = w.Write([]byte(content))
			default:
				w.WriteHeader(http.StatusInternalServerError)
			}
		}))
		repository, err := quirkyStore(t, strings.TrimPrefix(server.URL, "http://"), Access{NoRetry: true}).
			Repository(t.Context(), "reports/a")
		if err != nil {
			t.Fatal(err)
		}
		err = Remove(t.Context(), repository, ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageManifest, Digest: d, Size: int64(len(content)),
		})
		if want := "DELETE /manifests/" + d.String(); err != nil || len(requests) != 1 || requests[0] != want {
			t.Errorf("%s: got error %v after requests %q, want only %s", name, err, requests, want)
		}
		server.Close()
	}
}
