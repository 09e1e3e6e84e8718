package store

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestInternalHostsAreRecognized(t *testing.T) {
	for _, host := range []string{
		"127.0.0.1:5000", "127.1:80", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1:443",
		"192.168.0.1", "169.254.169.254",
		"100.100.100.200", "255.255.255.255", "[::1]:5000", "[::]", "[::ffff:10.0.0.1]:80", "[fe80::1%25eth0]:1",
		"[fd00::1]", "[64:ff9b::7f00:1]", "224.0.0.1",
		"localhost", "LOCALHOST:5000", "localhost.", "x.localhost:1", "etcd:2379", "kubernetes.default.svc",
		"registry.kyma.svc.cluster.local", "metadata.google.internal", "",
	} {
		if !IsInternalHost(host) {
			t.Errorf("%q: got public, want internal", host)
		}
	}
	for _, host := range []string{"europe-docker.pkg.dev", "registry.example:5000", "8.8.8.8", "8.8.8.8:5000",
		"[2001:4860:4860::8888]:443", "3scale.example"} {
		if IsInternalHost(host) {
			t.Errorf("%q: got internal, want public", host)
		}
	}
}

func TestAddressesAreClassifiedAsPublicPrivateOrLocal(t *testing.T) {
	for text, want := range map[string]addressKinds{
		"8.8.8.8": reachPublic, "2001:4860:4860::8888": reachPublic, "64:ff9b::808:808": reachPublic,
		"10.0.0.1": reachPrivate, "172.31.255.255": reachPrivate, "192.168.1.1": reachPrivate, "fd00::1": reachPrivate,
		"::ffff:10.0.0.1": reachPrivate,
		"100.64.0.1":      reachPrivate, "224.0.1.1": reachPrivate, "255.255.255.255": reachPrivate,
		"64:ff9b::a00:1":  reachPrivate,
		"169.254.169.254": reachLinkLocal, "fe80::1": reachLinkLocal, "fe80::1%eth0": reachLinkLocal,
		"64:ff9b::a9fe:a9fe": reachLinkLocal, "::ffff:169.254.169.254": reachLinkLocal,
		"64:ff9b:1::a9fe:a9fe": reachLinkLocal, "64:ff9b:1:2:3:4:a9fe:a9fe": reachLinkLocal,
		"::ffff:0:a9fe:a9fe": reachLinkLocal, "::a9fe:a9fe": reachLinkLocal, "2002:a9fe:a9fe::1": reachLinkLocal,
		"fd00:ec2::254": reachMetadata, "fd00:ec2::23": reachMetadata, "fd00:ec2::254%eth0": reachMetadata,
		"fd20:ce::254": reachMetadata, "fd00:c1::a9fe:a9fe": reachMetadata, "100.100.100.200": reachMetadata,
		"168.63.129.16": reachMetadata, "192.0.0.192": reachMetadata, "::ffff:100.100.100.200": reachMetadata,
		"64:ff9b::6464:64c8": reachMetadata, "64:ff9b:1::a00:1": reachPrivate, "64:ff9b:1::808:808": reachPrivate,
		"2002:808:808::1": reachPrivate, "2002:a00:1::1": reachPrivate, "2002:7f00:1::1": reachLoopback,
		"::7f00:1":  reachLoopback,
		"127.0.0.1": reachLoopback, "127.9.9.9": reachLoopback, "::1": reachLoopback, "0.0.0.0": reachLoopback,
		"::": reachLoopback, "0.1.2.3": reachLoopback, "64:ff9b::7f00:1": reachLoopback,
	} {
		if got := addressKindOf(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestRedirectsAreLimitedToTheRegistryAndAllowedHosts(t *testing.T) {
	blobs := []string{"blobs.example", "store.example:9000", "[2001:db8::1]:9000"}
	for name, c := range map[string]struct {
		from, to string
		hops     int
		want     string
	}{
		"own host":                           {"https://r.example/v2/", "https://r.example/blob", 1, ""},
		"own host in upper case":             {"https://r.example/v2/", "https://R.example./blob", 1, ""},
		"own host and port":                  {"https://r.example:5000/v2/", "https://r.example:5000/blob", 1, ""},
		"own host, from http to https":       {"http://r.example/v2/", "https://r.example/blob", 1, ""},
		"allowed host":                       {"https://r.example/v2/", "https://blobs.example/x", 1, ""},
		"allowed host with the default port": {"https://r.example/v2/", "https://blobs.example:443/x", 3, ""},
		"allowed host and port":              {"https://r.example/v2/", "https://store.example:9000/x", 1, ""},
		"allowed address and port":           {"https://r.example/v2/", "https://[2001:db8::1]:9000/x", 1, ""},
		"another host": {
			"https://r.example/v2/", "https://other.example/x", 1, "add --blob-host other.example if",
		},
		"another host and port": {
			"https://r.example/v2/", "https://other.example:8443/x", 1, "add --blob-host other.example:8443 if",
		},
		"own host at another port": {
			"https://r.example/v2/", "https://r.example:10250/pods", 1, "--blob-host r.example:10250",
		},
		"allowed host at another port": {
			"https://r.example/v2/", "https://blobs.example:10250/pods", 1, "--blob-host blobs.example:10250",
		},
		"default port instead of the allowed port": {
			"https://r.example/v2/", "https://store.example/", 1, "--blob-host store.example if",
		},
		"subdomain of an allowed host": {
			"https://r.example/v2/", "https://evil.blobs.example/x", 1, "--blob-host evil.blobs.example",
		},
		"host name that begins with an allowed host": {
			"https://r.example/v2/", "https://blobs.example.evil.example/x", 1,
			"--blob-host blobs.example.evil.example",
		},
		"own host, from https to http": {"https://r.example/v2/", "http://r.example/x", 1, "from https to http"},
		"allowed host, from https to http": {
			"https://r.example/v2/", "http://blobs.example/x", 1, "from https to http",
		},
		"URL with a password": {
			"https://r.example/v2/", "https://u:p@r.example/x", 1, "the URL contains a user name",
		},
		"fourth redirect": {
			"https://r.example/v2/", "https://r.example/blob", 4, "more than 3 redirects",
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, err := url.Parse(c.from)
			must(t, err)
			to, err := url.Parse(c.to)
			must(t, err)
			switch err := checkRedirect(to, from, c.hops, blobs); {
			case c.want == "" && err != nil:
				t.Errorf("got refusal %v, want no error", err)
			case c.want != "" &&
				(err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), to.Host)):
				t.Errorf("got %v, want %q and the host", err, c.want)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheckBlobHostRefusesInvalidHosts(t *testing.T) {
	for _, good := range []string{"blobs.example", "blobs.example:9000", "10.0.0.1:9000", "[::1]:9000"} {
		if err := CheckBlobHost(good); err != nil {
			t.Errorf("%q: got error %v, want no error", good, err)
		}
	}
	for _, bad := range []string{"", "https://blobs.example", "blobs.example/x", "*.example", "a,b", "u@blobs.example",
		":9000", "a b", "blobs.example?x", "blobs.example#x"} {
		if err := CheckBlobHost(bad); err == nil {
			t.Errorf("%q: got no error, want an error", bad)
		}
	}
}

func leading(t *testing.T, serve func(http.Handler) *httptest.Server, to func() string) *httptest.Server {
	t.Helper()
	server := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to(), http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	return server
}

// serveAt returns a function that starts a server at an address. It skips the test if this machine does not have the
// address.
func serveAt(t *testing.T, address string) func(http.Handler) *httptest.Server {
	return func(handler http.Handler) *httptest.Server {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			t.Skipf("this machine has no address %s: %v", address, err)
		}
		server := httptest.NewUnstartedServer(handler)
		_ = server.Listener.Close()
		server.Listener = listener
		server.Start()
		return server
	}
}

func privateAddress(t *testing.T) string {
	addresses, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && addressKindOf(prefix.Addr()) == reachPrivate {
			return prefix.Addr().String()
		}
	}
	t.Skip("this machine has no private address for a registry")
	return ""
}

func TestClientConnectsOnlyToAllowedHosts(t *testing.T) {
	blob := bundle.NewBlob("application/octet-stream", []byte("content"))
	var asked atomic.Int64
	internal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(blob.Bytes)
	}))
	t.Cleanup(internal.Close)
	_, internalPort, err := net.SplitHostPort(internal.Listener.Addr().String())
	must(t, err)
	there := func() string { return internal.URL + "/latest/meta-data" }
	localhost := "http://localhost:" + internalPort + "/latest/meta-data"
	for name, c := range map[string]struct {
		registry func(*testing.T) *httptest.Server
		access   Access
		want     string
	}{
		"redirect to another port on the registry's host": {
			func(t *testing.T) *httptest.Server {
				return leading(t, httptest.NewServer, there)
			}, Access{}, "add --blob-host " + internal.Listener.Addr().String(),
		},
		"redirect to an allowed host on the same machine": {
			func(t *testing.T) *httptest.Server { return leading(t, httptest.NewServer, there) },
			Access{BlobHosts: []string{internal.Listener.Addr().String()}}, "",
		},
		"redirect from https to http": {
			func(t *testing.T) *httptest.Server { return leading(t, httptest.NewTLSServer, there) },
			Access{BlobHosts: []string{internal.Listener.Addr().String()}}, "from https to http",
		},
		"endless redirects": {
			func(t *testing.T) *httptest.Server {
				var server *httptest.Server
				server = leading(t, httptest.NewServer, func() string { return server.URL + "/again" })
				return server
			}, Access{}, "more than 3 redirects",
		},
		"redirect from a private address to a name of this machine": {
			func(t *testing.T) *httptest.Server {
				return leading(t, serveAt(t, privateAddress(t)), func() string { return localhost })
			}, Access{PlainHTTP: true, BlobHosts: []string{"localhost:" + internalPort}}, "is a loopback address",
		},
		"redirect from this machine to the metadata service": {
			func(t *testing.T) *httptest.Server {
				return leading(t, httptest.NewServer, func() string { return "http://169.254.169.254/latest" })
			}, Access{BlobHosts: []string{"169.254.169.254"}}, "is a link-local address",
		},
		"redirect from a private address to a metadata service outside the link-local range": {
			func(t *testing.T) *httptest.Server {
				return leading(t, serveAt(t, privateAddress(t)), func() string { return "http://100.100.100.200/latest" })
			}, Access{PlainHTTP: true, BlobHosts: []string{"100.100.100.200"}}, "is a metadata service address",
		},
		"redirect from this machine to a private address": {
			func(t *testing.T) *httptest.Server {
				return leading(t, httptest.NewServer, func() string { return "http://10.255.255.1:9/x" })
			}, Access{BlobHosts: []string{"10.255.255.1:9"}}, "is a private address",
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			server := c.registry(t)
			access := c.access
			access.NoRetry = true
			if server.TLS != nil {
				access.CA = pemOf(server)
			}
			registries, err := NewRegistries(access)
			must(t, err)
			repository, err := registries.Repository(server.Listener.Addr().String() + "/fleet/content")
			must(t, err)
			data, err := FetchBlob(t.Context(), repository, blob.Descriptor, bundle.MaxLayerBytes)
			if c.want == "" {
				must(t, err)
				if string(data) != "content" {
					t.Errorf("got blob %q, want content", data)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, new(*RedirectError)) ||
				IsUnavailable(err) {
				t.Errorf("got %v, want a redirect error with %q that does not make the registry unavailable", err,
					c.want)
			}
			if asked.Load() != 0 {
				t.Error("the target received a request, want none")
			}
		})
	}
}

func TestRegistryFromAComponentIsUntrusted(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	_, number, err := net.SplitHostPort(server.Listener.Addr().String())
	must(t, err)
	registries, err := NewRegistries(Access{NoRetry: true, PlainHTTP: true})
	must(t, err)
	name := "localhost:" + number + "/charts/a"
	d := ocispec.Descriptor{Digest: digest.FromString("x"), Size: 1}
	foreign, err := registries.Foreign(name)
	must(t, err)
	if _, err := FetchBlob(t.Context(), foreign, d, 1); err == nil ||
		!strings.Contains(err.Error(), "is a loopback address") {
		t.Errorf("named by a component: got error %v, want a refusal", err)
	}
	for _, service := range []string{"100.100.100.200", "[fd00:ec2::254]", "[64:ff9b:1::a9fe:a9fe]"} {
		foreign, err := registries.Foreign(service + ":80/charts/a")
		must(t, err)
		if _, err := FetchBlob(t.Context(), foreign, d, 1); !errors.As(err, new(*RedirectError)) {
			t.Errorf("metadata service %s: got error %v, want a refusal", service, err)
		}
	}
	configured, err := registries.Repository(name)
	must(t, err)
	if _, err := FetchBlob(t.Context(), configured, d, 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("configured: got error %v, want ErrNotFound", err)
	}
	again, err := registries.Foreign(name)
	must(t, err)
	if _, err := FetchBlob(t.Context(), again, d, 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("configured and named by a component: got error %v, want ErrNotFound", err)
	}
}

func TestTokenServiceOnAnotherHostMustBePublic(t *testing.T) {
	registries, err := NewRegistries(Access{NoRetry: true})
	must(t, err)
	_, err = registries.Repository("registry.example:5000/fleet")
	must(t, err)
	for at, want := range map[string]string{"https://registry.example:5000/": "", "https://registry.example/token": "",
		"https://auth.example/token": "public", "http://127.0.0.1/token": "public"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		must(t, err)
		allowed, everything := registries.egress.allowedAddresses(request)
		if everything != (want == "") || want != "" && allowed.String() != want {
			t.Errorf("%s: got addresses %s, everything %t, want %q", at, allowed, everything, want)
		}
	}
	if err := control(reachPublic, "auth.example:443")(t.Context(), "tcp4", "10.0.0.7:443", nil); err == nil ||
		!strings.Contains(err.Error(), "connection to auth.example:443 refused: 10.0.0.7 is a private address") {
		t.Errorf("private address: got error %v, want a refusal", err)
	}
	if err := control(reachPublic, "auth.example:443")(t.Context(), "tcp6",
		fmt.Sprintf("[%s]:443", "2001:4860:4860::8888"), nil); err != nil {
		t.Errorf("public address: got error %v, want no error", err)
	}
}

func pemOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
