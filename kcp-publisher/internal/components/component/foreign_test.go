package component

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Package store tests the rules for internal addresses. This test checks that a Reader applies them.
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
	t.Run("redirect from the configured registry", func(t *testing.T) {
		_, repository, err := reader.openForeign(host+"/charts/a", nil)
		w.must(err)
		_, err = store.Fetch(t.Context(), repository, "1.0.0")
		if err == nil || !strings.Contains(err.Error(), "add --blob-host "+strings.TrimPrefix(inside.URL, "http://")) {
			t.Errorf("redirect to an internal address: got error %v, want a refusal", err)
		}
	})
	t.Run("name that resolves to this machine", func(t *testing.T) {
		repository, err := w.registries.Foreign("localhost:" + strings.Split(host, ":")[1] + "/charts/a")
		w.must(err)
		_, err = store.Fetch(t.Context(), repository, "1.0.0")
		if err == nil || !strings.Contains(err.Error(), "is a loopback address") {
			t.Errorf("name of this machine: got error %v, want a refusal", err)
		}
	})
	if asked {
		t.Error("the internal address was requested")
	}
}
