package isolation

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"golang.org/x/crypto/bcrypt"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/token"
)

var secret = trust.TokenSecret(strings.Repeat("s", 32))

// fixture is a running registry with the credentials of its users.
type fixture struct {
	host     string
	location string
	password func(user string) string
	// front receives each request before the registry. If it returns true, it has handled the request itself.
	front func(http.ResponseWriter, *http.Request) bool
}

func (f *fixture) registries(t *testing.T, user string) *store.Registries {
	t.Helper()
	access := store.Access{NoRetry: true}
	if user != "" {
		auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + f.password(user)))
		access.DockerConfig = fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, f.host, auth)
	}
	registries, err := store.NewRegistries(access)
	must(t, err)
	return registries
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func configure(auth configuration.Auth) *configuration.Configuration {
	logrus.SetOutput(io.Discard)
	config := &configuration.Configuration{Auth: auth, Storage: configuration.Storage{
		"inmemory": configuration.Parameters{}, "delete": configuration.Parameters{"enabled": true},
		"maintenance": configuration.Parameters{"uploadpurging": map[any]any{"enabled": false}},
	}}
	config.Log.Level = "panic"
	config.Log.AccessLog.Disabled = true
	config.HTTP.Secret = "test"
	config.Catalog.MaxEntries = 1000
	return config
}

func (f *fixture) serve(t *testing.T, registry http.Handler, tokens http.Handler) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case f.front != nil && f.front(w, r):
		case r.URL.Path == "/auth/token" && tokens != nil:
			tokens.ServeHTTP(w, r)
		default:
			r.Header.Set("X-Forwarded-Proto", "http")
			registry.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	f.host = strings.TrimPrefix(server.URL, "http://")
	f.location = f.host + "/fleet"
}

// withTokens starts distribution and the token service, as in docs/guides/registry.md.
func withTokens(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{password: func(user string) string {
		password, err := token.Password(secret, user, 1)
		must(t, err)
		return password
	}}
	key, err := trust.GenerateKey()
	must(t, err)
	signer, err := trust.LoadSigner(key)
	must(t, err)
	issuer, err := token.NewIssuer("kyma-pull", "registry", signer)
	must(t, err)
	set, err := issuer.KeySet()
	must(t, err)
	jwks := filepath.Join(t.TempDir(), "jwks.json")
	must(t, os.WriteFile(jwks, set, 0o600))
	policy, err := token.NewPolicy("fleet", []string{"modules/**"})
	must(t, err)
	service, err := token.NewService(token.Options{
		Secrets: func() (trust.TokenSecrets, error) { return trust.TokenSecrets{secret}, nil }, Policy: policy,
		Issuer: issuer, InForce: func(string) (int, error) { return 1, nil }, Now: time.Now, FreshID: rand.Text,
		Log: logr.Discard(),
	})
	must(t, err)
	app := handlers.NewApp(t.Context(), configure(configuration.Auth{"token": configuration.Parameters{
		"realm": "unused", "autoredirect": true, "issuer": "kyma-pull", "service": "registry", "jwks": jwks,
		"signingalgorithms": []any{"ES256"},
	}}))
	f.serve(t, app, service)
	f.publish(t, token.UserPublisher)
	return f
}

// withOnePassword starts distribution with one password for all users.
func withOnePassword(t *testing.T) *fixture {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("p"), bcrypt.MinCost)
	must(t, err)
	path := filepath.Join(t.TempDir(), "htpasswd")
	must(t, os.WriteFile(path, fmt.Appendf(nil, "agent:%s\n", hash), 0o600))
	f := &fixture{password: func(string) string { return "p" }}
	app := handlers.NewApp(t.Context(), configure(configuration.Auth{
		"htpasswd": configuration.Parameters{"realm": "registry", "path": path},
	}))
	f.serve(t, app, nil)
	f.publish(t, "agent")
	return f
}

// publish publishes different bundles for the runtimes a and b.
func (f *fixture) publish(t *testing.T, user string) {
	t.Helper()
	key, err := trust.GenerateKey()
	must(t, err)
	signer, err := trust.LoadSigner(key)
	must(t, err)
	place, err := store.Open(f.location, f.registries(t, user))
	must(t, err)
	for _, runtime := range []string{"a", "b"} {
		state := bundle.DesiredState{Manifests: []bundle.Manifest{{Name: "of-" + runtime, Module: "of-" + runtime}}}
		documents, err := bundle.NewDocuments(state, bundle.Catalog{})
		must(t, err)
		manifest, err := bundle.Compose(documents, bundle.Predicate{Audience: bundle.Audience{Runtime: runtime}},
			signer)
		must(t, err)
		must(t, storetest.ShareDocuments(t.Context(), place, documents))
		must(t, storetest.PushBundle(t.Context(), place, runtime, documents, manifest))
	}
}

func (f *fixture) options(t *testing.T, own, other string) Options {
	t.Helper()
	return Options{
		Location: f.location, Own: Runtime{"a", f.registries(t, own)}, Other: Runtime{"b", f.registries(t, other)},
		Anonymous: f.registries(t, ""), Random: rand.Reader,
	}
}

func TestTokenServiceIsolatesRuntimesInTheDistributionRegistry(t *testing.T) {
	f := withTokens(t)
	findings, _, err := Check(t.Context(), f.options(t, "a", "b"))
	must(t, err)
	for _, finding := range findings {
		t.Logf("%d %-60s %s", finding.Status, finding.What, finding.Request)
	}
	if len(findings) < 40 {
		t.Errorf("got %d findings, want at least 40", len(findings))
	}
}

func TestSharedPasswordIsDetected(t *testing.T) {
	f := withOnePassword(t)
	findings, _, err := Check(t.Context(), f.options(t, "agent", "agent"))
	var leak *Leak
	if !errors.As(err, &leak) || leak.Findings < 20 {
		t.Fatalf("got error %v, want a Leak with at least 20 findings", err)
	}
	leaking := map[string]bool{}
	for _, finding := range findings {
		if finding.Leaks {
			leaking[finding.What] = true
		}
	}
	for _, what := range []string{
		"read another runtime's bundle", "ask for another runtime's bundle by digest", "read another runtime's blob",
		"mount another runtime's blob",
		"read another runtime's blob after trying to mount it",
		"list tags of other repositories", "see other repositories in the catalog", "write another runtime's report",
		"write its own desired state", "delete another runtime's blob",
	} {
		if !leaking[what] {
			t.Errorf("leak %q was not detected, got %v", what, slices.Sorted(maps.Keys(leaking)))
		}
	}
}

func TestEachLeakIsDetected(t *testing.T) {
	for name, c := range map[string]struct {
		leak func(r *http.Request) (status int, body string)
		what []string
	}{
		"deduplication finds another runtime's blob by digest": {
			func(r *http.Request) (int, string) {
				if r.Method == http.MethodHead && strings.Contains(r.URL.Path, "/runtimes/a/blobs/") {
					return 200, ""
				}
				return 0, ""
			}, []string{"find another runtime's blob by its digest"},
		},
		"mounts need no permission": {
			func(r *http.Request) (int, string) {
				if r.URL.Query().Has("mount") && r.URL.Query().Has("from") {
					return 201, ""
				}
				return 0, ""
			}, []string{"mount another runtime's blob"},
		},
		"the catalog lists other runtimes": {
			func(r *http.Request) (int, string) {
				if r.URL.Path == "/v2/_catalog" {
					return 200, `{"repositories":["fleet/content","fleet/reports/b"]}`
				}
				return 0, ""
			}, []string{"see other repositories in the catalog"},
		},
		"tags of other runtimes are listed": {
			func(r *http.Request) (int, string) {
				if strings.HasSuffix(r.URL.Path, "/tags/list") {
					return 200, `{"tags":[]}`
				}
				return 0, ""
			}, []string{"list tags of other repositories"},
		},
		"a write fails only because of an unknown blob": {
			func(r *http.Request) (int, string) {
				if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/runtimes/a/") {
					return 404, `{"errors":[{"code":"MANIFEST_BLOB_UNKNOWN"}]}`
				}
				return 0, ""
			}, []string{"write its own desired state"},
		},
		"bundles can be read without a password": {
			func(r *http.Request) (int, string) {
				if r.Header.Get("Authorization") == "" && strings.Contains(r.Header.Get("Accept"), "*/*") &&
					strings.Contains(r.URL.Path, "/runtimes/b/manifests/desired") {
					return 200, "{}"
				}
				return 0, ""
			}, []string{"read a bundle without a password", "read another runtime's bundle"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := withTokens(t)
			options := f.options(t, "a", "b")
			f.front = func(w http.ResponseWriter, r *http.Request) bool {
				status, body := c.leak(r)
				if status != 0 {
					w.WriteHeader(status)
					_, _ = io.WriteString(w, body)
				}
				return status != 0
			}
			findings, _, err := Check(t.Context(), options)
			var leak *Leak
			if !errors.As(err, &leak) {
				t.Fatalf("got error %v, want a Leak", err)
			}
			for _, finding := range findings {
				if finding.Leaks && finding.What != c.what[0] &&
					!strings.HasPrefix(finding.What, c.what[len(c.what)-1]) {
					t.Errorf("got unexpected leak %+v", finding)
				}
			}
			if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Leaks && f.What == c.what[0] }) {
				t.Errorf("leak %q was not detected", c.what[0])
			}
		})
	}
}

func TestUnavailableRegistryDoesNotPassTheCheck(t *testing.T) {
	for name, c := range map[string]struct {
		front func(w http.ResponseWriter, r *http.Request) bool
		want  string
	}{
		"registry refuses every request": {
			func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(403)
				return true
			}, "cannot read its own bundle",
		},
		"registry has no bundles": {
			func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(404)
				return true
			}, "publish a bundle to both",
		},
		"registry is unavailable": {func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/tags/list") {
				w.WriteHeader(500)
				return true
			}
			return false
		}, "does not show whether access is allowed"},
		"registry refuses reports": {func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				w.WriteHeader(403)
				return true
			}
			return false
		}, "cannot write its own report"},
	} {
		t.Run(name, func(t *testing.T) {
			f := withTokens(t)
			f.front = c.front
			_, _, err := Check(t.Context(), f.options(t, "a", "b"))
			var leak *Leak
			if err == nil || errors.As(err, &leak) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestTwoDifferentRuntimesAreRequired(t *testing.T) {
	o := Options{Location: "registry.example/fleet", Own: Runtime{ID: "a"}, Other: Runtime{ID: "a"}}
	if _, _, err := Check(context.Background(), o); err == nil {
		t.Error("the same runtime was accepted twice")
	}
}

// The test checks a registry that leaks everything and a registry that leaks nothing.
func TestCheckDeletesItsObjects(t *testing.T) {
	open := withOnePassword(t)
	was := open.contents(t, "agent")
	_, left, err := Check(t.Context(), open.options(t, "agent", "agent"))
	if !errors.As(err, new(*Leak)) || len(left) > 0 {
		t.Errorf("got %v with remaining objects %v, want a leak and none", err, left)
	}
	if is := open.contents(t, "agent"); !maps.Equal(was, is) {
		t.Errorf("got tags %[2]v, want %[1]v", was, is)
	}
	findings, left, err := Check(t.Context(), open.options(t, "agent", "agent"))
	if !errors.As(err, new(*Leak)) || len(left) > 0 ||
		slices.ContainsFunc(findings, func(f Finding) bool { return f.LeftOver }) {
		t.Errorf("second check: got %v with remaining objects %v, want a leak and none", err, left)
	}
	strict := withTokens(t)
	was = strict.contents(t, token.UserPublisher)
	_, left, err = Check(t.Context(), strict.options(t, "a", "b"))
	must(t, err)
	if len(left) != 2 || !strings.Contains(left[0], "in fleet/reports/a") ||
		!strings.Contains(left[1], "in fleet/reports/b") {
		t.Errorf("got remaining objects %v, want the two blobs that no user can delete", left)
	}
	if is := strict.contents(t, token.UserPublisher); !maps.Equal(was, is) {
		t.Errorf("got tags %[2]v, want %[1]v", was, is)
	}
}

// contents returns the digest of each tag that a check could change.
func (f *fixture) contents(t *testing.T, user string) map[string]string {
	t.Helper()
	place, err := store.Open(f.location, f.registries(t, user))
	must(t, err)
	all := map[string]string{}
	for _, name := range []string{"runtimes/a", "runtimes/b", "reports/a", "reports/b", "documents", "content",
		"trust"} {
		repository, err := f.registries(t, user).Repository(place.Name(name))
		must(t, err)
		err = repository.Tags(t.Context(), "", func(tags []string) error {
			for _, tag := range tags {
				d, err := repository.Resolve(t.Context(), tag)
				if err != nil {
					return err
				}
				all[name+":"+tag] = d.Digest.String()
			}
			return nil
		})
		if store.NotFound(err) != nil && !errors.Is(store.NotFound(err), store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return all
}

// In this test, the registry leaks data during the first check and isolates runtimes during the second one.
func TestObjectsFromEarlierChecksAreNotLeaks(t *testing.T) {
	f := withTokens(t)
	options := f.options(t, "a", "b")
	_, blobs, err := readBundle(t.Context(), f.location, options.Other)
	must(t, err)
	place, err := store.Open(f.location, f.registries(t, token.UserPublisher))
	must(t, err)
	from, err := place.Reading(t.Context(), bundle.DesiredRepository("b"))
	must(t, err)
	to, err := place.Repository(t.Context(), bundle.ReportRepository("a"))
	must(t, err)
	for _, d := range blobs {
		found, err := from.Resolve(t.Context(), d.String())
		if err != nil {
			repository, ok := from.(*remote.Repository)
			if !ok {
				t.Fatal(err)
			}
			found, err = repository.Blobs().Resolve(t.Context(), d.String())
			must(t, err)
		}
		data, err := store.FetchBlob(t.Context(), from, found, bundle.MaxLayerBytes)
		must(t, err)
		must(t, store.PushBlob(t.Context(), to, bundle.NewBlob("application/octet-stream", data)))
	}
	findings, left, err := Check(t.Context(), options)
	must(t, err)
	overs := 0
	for _, finding := range findings {
		if finding.LeftOver {
			overs++
		}
	}
	if overs == 0 ||
		!slices.ContainsFunc(left, func(what string) bool { return strings.Contains(what, blobs[0].String()) }) {
		t.Errorf("got %d leftovers and remaining objects %v", overs, left)
	}
}
