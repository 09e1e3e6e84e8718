package component

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// TestRegistryCannotRedirectIntoThisNetwork checks that repositories of components use the redirect rule that the tests
// of package store cover.
func TestRegistryCannotRedirectIntoThisNetwork(t *testing.T) {
	w := newWorld(t)
	asked := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	t.Cleanup(inside.Close)
	leading := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		http.Redirect(to, r, inside.URL+"/latest", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(leading.Close)
	host := strings.TrimPrefix(leading.URL, "http://")
	reader := NewReader(Options{
		Sources: []Source{Registry{Prefix: host, Registries: w.registries}}, Registries: w.registries,
	})
	t.Run("by a redirect of the configured registry", func(t *testing.T) {
		_, repository, err := reader.foreign(host+"/charts/a", nil)
		w.must(err)
		_, err = store.Fetch(t.Context(), repository, "1.0.0")
		if err == nil || !strings.Contains(err.Error(), "add --blob-host "+strings.TrimPrefix(inside.URL, "http://")) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("by a name that resolves to this machine", func(t *testing.T) {
		// A name of this machine is not opened. A public name that resolves to it is the same after its resolution.
		repository, err := w.registries.Foreign("localhost:" + strings.Split(host, ":")[1] + "/charts/a")
		w.must(err)
		_, err = store.Fetch(t.Context(), repository, "1.0.0")
		if err == nil || !strings.Contains(err.Error(), "is a loopback address") {
			t.Errorf("got %v", err)
		}
	})
	if asked {
		t.Error("the address inside was asked")
	}
}
