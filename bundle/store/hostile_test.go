package store

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func TestRegistryCannotFillMemoryWithTokens(t *testing.T) {
	const requests, scopeBytes, tokenSize = 300, 20 << 10, 60 << 10
	var scopes []string
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			_ = json.NewEncoder(w).Encode(map[string]string{"token": strings.Repeat("t", tokenSize)})
		case strings.HasSuffix(r.Header.Get("Authorization"), "t"):
			w.WriteHeader(http.StatusNotFound)
		default:
			scopes = append(scopes, fmt.Sprintf("repository:%d%s:pull", len(scopes), strings.Repeat("x", scopeBytes)))
			w.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",scope=%q`, server.URL,
				scopes[len(scopes)-1]))
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	registries, err := NewRegistries(Access{})
	if err != nil {
		t.Fatal(err)
	}
	if cache, ok := registries.client.Cache.(*tokenCache); !ok || cache.limitBytes != maxTokenBytes {
		t.Fatalf("got cache %T, want one with %d bytes", registries.client.Cache, maxTokenBytes)
	}
	const limit = 4 << 20
	registries.client.Cache = newTokenCache(limit)
	for i := range requests {
		place, err := Open(fmt.Sprintf("%s/fleet%d", host, i), registries)
		if err != nil {
			t.Fatal(err)
		}
		repository, err := place.Reading(t.Context(), "desired")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Head(t.Context(), repository, "latest"); err == nil {
			t.Fatal("got a manifest, want an error")
		}
	}
	held := 0
	for i, scope := range scopes {
		key := fmt.Sprintf("repository:fleet%d/desired:pull %s", i, scope)
		key = strings.Join(auth.CleanScopes(strings.Split(key, " ")), " ")
		token, err := registries.client.Cache.GetToken(t.Context(), host, auth.SchemeBearer, key)
		if err == nil {
			held += len(key) + len(token)
		}
	}
	if len(scopes) != requests || held < limit/4 || held > limit {
		t.Errorf("the cache holds %d bytes after %d tokens, want at most %d", held, len(scopes), limit)
	}
}

func TestRegistryCannotSendEndlessNameLists(t *testing.T) {
	pages := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pages++; pages > maxNamesPages+1 {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.Header().Set("Link", fmt.Sprintf(`<%s?last=%d>; rel="next"`, r.URL.Path, pages))
		_, _ = w.Write([]byte(`{"tags": ["tag"], "repositories": ["fleet/tag"]}`))
	}))
	defer server.Close()
	place := quirkyStore(t, strings.TrimPrefix(server.URL, "http://"), Access{})
	repository, err := place.Reading(t.Context(), "desired")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Tags(t.Context(), repository); refusal.Of(err) == nil {
		t.Errorf("tags: got %v, want a refusal", err)
	}
	pages = 0
	if _, err := Repositories(t.Context(), place); refusal.Of(err) == nil {
		t.Errorf("repositories: got %v, want a refusal", err)
	}
}

func TestListsOfNamesAreLimitedInBytes(t *testing.T) {
	var list names
	page := make([]string, 10_000)
	for i := range page {
		page[i] = strings.Repeat("n", 1_000)
	}
	keepAll := func(name string) (string, bool) { return name, true }
	for read := 0; ; read += 10_000 * 1_000 {
		if err := list.add(page, keepAll); err != nil {
			if read < maxNamesBytes/2 || refusal.Of(err) == nil {
				t.Errorf("got %v after %d bytes, want a refusal after about %d", err, read, maxNamesBytes)
			}
			return
		}
		if read > maxNamesBytes {
			t.Fatalf("a list of %d bytes was accepted", read)
		}
	}
}

func TestRegistryCannotSendEndlessHeaders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Docker-Content-Digest", strings.Repeat("d", 2*maxHeaderBytes))
	}))
	defer server.Close()
	repository, err := quirkyStore(t, strings.TrimPrefix(server.URL, "http://"), Access{NoRetry: true}).
		Reading(t.Context(), "desired")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Head(t.Context(), repository, "latest")
	if err == nil || !strings.Contains(err.Error(), "headers exceeded") {
		t.Errorf("got error %v, want a refusal of the headers", err)
	}
}
