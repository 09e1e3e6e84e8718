package store

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
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
			`{"repositories":[]}`, nil, "lists no repositories below this prefix",
		},
		"response without a list": {`{}`, nil, "lists no repositories below this prefix"},
		"list without repositories of the fleet": {
			`{"repositories":["fleets/b","other"]}`, nil, "lists no repositories below this prefix",
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
