package component

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

func TestHostsOfThisNetworkAreTold(t *testing.T) {
	for _, host := range []string{
		"127.0.0.1:5000", "127.1:80", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1:443", "192.168.0.1", "169.254.169.254",
		"100.100.100.200", "255.255.255.255", "[::1]:5000", "[::]", "[::ffff:10.0.0.1]:80", "[fe80::1%25eth0]:1", "[fd00::1]", "[64:ff9b::7f00:1]", "224.0.0.1",
		"localhost", "LOCALHOST:5000", "localhost.", "x.localhost:1", "etcd:2379", "kubernetes.default.svc", "registry.kyma.svc.cluster.local", "metadata.google.internal", "",
	} {
		if !isInternal(host) {
			t.Errorf("%q is taken for public", host)
		}
	}
	for _, host := range []string{"europe-docker.pkg.dev", "registry.example:5000", "8.8.8.8", "8.8.8.8:5000", "[2001:4860:4860::8888]:443", "3scale.example"} {
		if isInternal(host) {
			t.Errorf("%q is taken for one of this network", host)
		}
	}
}

// answering is a transport that answers every request alike.
type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

func TestARegistryCannotLeadIntoThisNetwork(t *testing.T) {
	w := newWorld(t)
	for name, header := range map[string]http.Header{
		"by a redirect":        {"Location": {"http://169.254.169.254/latest"}},
		"by its token service": {"Www-Authenticate": {`Bearer realm="https://kubernetes.default.svc/token",service="x"`}},
	} {
		t.Run(name, func(t *testing.T) {
			status := http.StatusTemporaryRedirect
			if header.Get("Location") == "" {
				status = http.StatusUnauthorized
			}
			var asked []string
			answer := answering(func(r *http.Request) *http.Response {
				asked = append(asked, r.URL.Host)
				return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader("")), Request: r}
			})
			_, repository, err := w.reader().foreign("registry.example/charts/a", nil)
			w.must(err)
			inner := repository.Client.(*auth.Client).Client
			guard, ok := inner.Transport.(guardedTransport)
			if !ok {
				t.Fatalf("its transport is %T", inner.Transport)
			}
			guard.next = answer
			inner.Transport = guard
			_, err = store.Fetch(t.Context(), repository, "1.0.0")
			if err == nil || !strings.Contains(err.Error(), "which is an address of this network") {
				t.Errorf("got %v", err)
			}
			if len(asked) != 1 || asked[0] != "registry.example" {
				t.Errorf("asked %v", asked)
			}
		})
	}
	t.Run("unless somebody configured it", func(t *testing.T) {
		_, repository, err := w.reader().foreign(w.host+"/charts/a", nil)
		w.must(err)
		if _, guarded := repository.Client.(*auth.Client).Client.Transport.(guardedTransport); guarded {
			t.Error("the configured registry's redirects are refused")
		}
	})
	t.Run("and others keep their client", func(t *testing.T) {
		plain, err := w.registries.Repository("registry.example/x")
		w.must(err)
		if _, guarded := plain.Client.(*auth.Client).Client.Transport.(guardedTransport); guarded {
			t.Error("the shared client was changed")
		}
	})
}
