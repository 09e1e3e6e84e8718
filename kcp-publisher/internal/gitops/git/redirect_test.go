package git

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

func TestClientRefusesRedirectToAnotherHost(t *testing.T) {
	var asked atomic.Int64
	internal := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(internal.Close)
	evil := httptest.NewServer(http.RedirectHandler(internal.URL+"/latest/meta-data", http.StatusFound))
	t.Cleanup(evil.Close)
	_, err := open(t, Options{URL: evil.URL + "/fleet.git"}).Head(t.Context())
	var refused *store.RedirectError
	if !errors.As(err, &refused) {
		t.Errorf("got error %v, want a *store.RedirectError", err)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the other host got %d requests, want 0", n)
	}
}

func TestClientFollowsRedirectOnTheSameHost(t *testing.T) {
	w := newWork(t)
	w.commit(map[string]string{"kyma.yaml": "a: b"})
	target, err := url.Parse(served(t, w.dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	moved := httptest.NewServer(nil)
	t.Cleanup(moved.Close)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	const old = "/old"
	moved.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if len(r.URL.Path) > len(old) && r.URL.Path[:len(old)] == old {
			http.Redirect(rw, r, r.URL.Path[len(old):]+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
			return
		}
		proxy.ServeHTTP(rw, r)
	})
	if _, err := open(t, Options{URL: moved.URL + old + target.Path}).Head(t.Context()); err != nil {
		t.Error(err)
	}
}
