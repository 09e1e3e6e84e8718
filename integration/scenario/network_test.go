package scenario

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// A registry can redirect blob requests, but only to an allowed storage host. No other response can make a program
// connect to a different address or print control characters.
func TestRegistryOwnerCannotRedirectPrograms(t *testing.T) {
	ctx := t.Context()
	var registry, inside atomic.Pointer[string]
	var fromStorage, fromInside atomic.Int64
	storage := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		fromStorage.Add(1)
		p.SetURL(&url.URL{Scheme: "http", Host: *registry.Load()})
		p.Out.Header.Set("X-From-Storage", "yes")
	}})
	t.Cleanup(storage.Close)
	metadata := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fromInside.Add(1) }))
	t.Cleanup(metadata.Close)
	named := []string{"--blob-host", storage.Listener.Addr().String()}
	f := startFleet(t, fleet.Options{PublisherFlags: named, AgentFlags: named})
	host := f.Registry.Host()
	registry.Store(&host)
	must(t, f.Offer(ctx, sample.Scaler("1.7.0"), sample.Scaler("1.8.0")))
	f.Registry.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			return false
		case inside.Load() != nil && strings.Contains(r.URL.Path, *inside.Load()):
			http.Redirect(w, r, metadata.URL+"/latest/meta-data", http.StatusTemporaryRedirect)
			return true
		case strings.Contains(r.URL.Path, "/blobs/sha256:") && r.Header.Get("X-From-Storage") == "":
			http.Redirect(w, r, storage.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	must(t, f.Release(ctx, "scaler", sample.Scaler("").Component(), sample.Channel("regular", "1.7.0")))
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	if fromStorage.Load() == 0 {
		t.Error("no blob was read from the allowed storage host")
	}

	t.Run("agent reports the refused redirect and the flag", func(t *testing.T) {
		inside.Store(new("/runtimes/one/"))
		until(t, 30*time.Second, "the agent reports the target of the redirect", func() (bool, string) {
			log := r.Agent().Log()
			return strings.Contains(log, "add --blob-host "+metadata.Listener.Addr().String()),
				string(last([]byte(log), 500))
		})
	})
	t.Run("publisher reports the refused redirect without an outage", func(t *testing.T) {
		inside.Store(new("/component-descriptors/"))
		must(t, f.Release(ctx, "scaler", sample.Scaler("").Component(), sample.Channel("regular", "1.8.0")))
		until(t, 30*time.Second, "the control plane reports the target of the redirect", func() (bool, string) {
			output, _ := f.Why(ctx, "one")
			return strings.Contains(output, "add --blob-host "+metadata.Listener.Addr().String()), output
		})
		if log := f.Publisher().Log(); strings.Contains(log, "registry unavailable") {
			t.Error("the publisher reported a refused redirect as an outage")
		}
	})
	inside.Store(nil)
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	if n := fromInside.Load(); n > 0 {
		t.Errorf("the internal address received %d requests, want none", n)
	}

	t.Run("responses cannot send control characters to the terminal", func(t *testing.T) {
		const hostile = `{"errors":[{"code":"DENIED","message":"\u001b]0;owned\u0007\u001b[2J\u009b2J\u202eall is well"}]}`
		f.Registry.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodHead {
				return false // responses to HEAD requests have no body
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, hostile)
			return true
		})
		defer f.Registry.Intercept(nil)
		for binary, args := range map[string][]string{
			f.Binaries().Agent: {
				"verify", f.Location(), "--trust", filepath.Join(f.Keys(), "root.json"), "--runtime", "one",
			},
			f.Binaries().Publisher: {
				"export", "one", "--from", f.Location(), "--keys", f.Keys(), "-o", filepath.Join(t.TempDir(), "file"),
			},
		} {
			output, code := fleet.Run(ctx, binary, args...)
			steers := strings.ContainsFunc(output, func(r rune) bool {
				return !unicode.IsGraphic(r) && r != '\n' && r != '\t'
			})
			if code == 0 || steers || !strings.Contains(output, `\x1b]0;owned`) {
				t.Errorf("%s: exit code %d, unexpected output %q", filepath.Base(binary), code, output)
			}
		}
	})
}

// The test also checks that clients that scrape the publisher must authenticate.
func TestBadRepositoryAffectsOnlyItsRuntime(t *testing.T) {
	address := freeAddress(t)
	f := newFleet(t, fleet.Options{
		PublisherFlags:  []string{"--metrics-bind-address", address},
		PublisherRights: []string{"publisher.yaml", "metrics.yaml"},
	})
	bad, others := simulate(t, f, 1, 5)
	f.Registry.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/reports/"+bad[0].ID+"/") {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		return false
	})
	of := func(text string) int { return strings.Count(f.Publisher().Log(), text) }
	until(t, 30*time.Second, "the publisher reports the broken repository", func() (bool, string) {
		return of("fail while the registry is available") > 0, "not logged yet"
	})
	promote(t, f, "1.8.0")
	for _, s := range others {
		untilSettled(t, s, "1.8.0")
	}
	until(t, 30*time.Second, "the runtime with the broken repository gets its bundle", func() (bool, string) {
		return bad[0].Has("scaler") == "1.8.0", bad[0].Has("scaler")
	})
	if down, alone := of("registry unavailable"), of("fail while the registry is available"); down != 0 || alone != 1 {
		t.Errorf("the log reports %d registry outages and %d failing runtimes, want 0 and 1", down, alone)
	}

	t.Run("scrapes require authentication", func(t *testing.T) { requestMetrics(t, f, address) })

	f.Registry.Intercept(nil)
	until(t, 30*time.Second, "the publisher reports the recovery", func() (bool, string) {
		return of("responds for this runtime again") == 1, "not logged yet"
	})
}

// requestMetrics requests the publisher's metrics without credentials, as a user without access, and as Prometheus.
func requestMetrics(t *testing.T, f *fleet.Fleet, address string) {
	ctx := t.Context()
	insecure := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the certificate is self-signed
	get := func(base, token string) (int, string) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil)
		must(t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := insecure.Do(request)
		must(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		must(t, err)
		return response.StatusCode, string(body)
	}
	tokenOf := func(name string) string {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: name}}
		must(t, f.Control.Create(ctx, account))
		request := &authenticationv1.TokenRequest{}
		must(t, f.Control.SubResource("token").Create(ctx, account, request))
		return request.Status.Token
	}
	must(t, f.Control.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus-reads-metrics"},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kcp-publisher-metrics-reader",
		},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: sample.Namespace, Name: "prometheus"}},
	}))
	for name, c := range map[string]struct {
		base, token string
		want        int
	}{
		"without encryption":              {"http://" + address, "", http.StatusBadRequest},
		"scrape without a token":          {"https://" + address, "", http.StatusUnauthorized},
		"scrape with an invalid token":    {"https://" + address, "none", http.StatusInternalServerError},
		"scrape by a user without access": {"https://" + address, tokenOf("stranger"), http.StatusForbidden},
		"scrape by Prometheus":            {"https://" + address, tokenOf("prometheus"), http.StatusOK},
	} {
		code, body := get(c.base, c.token)
		if code != c.want ||
			strings.Contains(body, "kyma_pull_publisher_registry_failing_runtimes 1") != (c.want == http.StatusOK) {
			t.Errorf("%s: got status %d, want %d: %.300s", name, code, c.want, body)
		}
	}
}

// The test opens more connections with incomplete requests than the token service allows.
func TestTokenServiceSurvivesSlowClients(t *testing.T) {
	runInQueue(t)
	binaries, err := fleet.Build()
	must(t, err)
	dir := t.TempDir()
	for _, args := range [][]string{{"keys", "init", "--keys", filepath.Join(dir, "keys")},
		{"registry", "init", "--keys", filepath.Join(dir, "keys")}} {
		if output, code := fleet.Run(t.Context(), binaries.Publisher, args...); code != 0 {
			t.Fatalf("%v: %s", args, output)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	must(t, err)
	service := exec.CommandContext(t.Context(), binaries.Publisher, "token-service", "--keys",
		filepath.Join(dir, "keys"), "--location", "registry.example/fleet", "--bind-address", "127.0.0.1:0")
	service.Stdout, service.Stderr = log, log
	// The chart sets GOMEMLIMIT to 90 % of the memory limit. The tests' GOGC would increase the memory.
	service.Env = append(os.Environ(), "GOGC=", "GOMEMLIMIT=115MiB")
	must(t, service.Start())
	t.Cleanup(func() { _ = service.Process.Kill(); _ = service.Wait() })
	var got struct{ Address string }
	until(t, 30*time.Second, "the token service listens", func() (bool, string) {
		data, err := os.ReadFile(log.Name())
		line, _, _ := strings.Cut(string(data), "\n")
		return err == nil && json.Unmarshal([]byte(line), &got) == nil && got.Address != "", string(data)
	})
	var slow sync.WaitGroup
	for range 100 {
		slow.Go(func() {
			for range 40 {
				connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", got.Address)
				if err != nil {
					t.Error(err)
					return
				}
				defer connection.Close()
				// An error means that the service has closed the connection.
				_, _ = fmt.Fprintf(connection, "GET /auth/token HTTP/1.1\r\nHost: registry.example\r\nX-Long: %s",
					strings.Repeat("x", 6<<10))
			}
		})
	}
	slow.Wait()
	until(t, time.Minute, "the token service responds", func() (bool, string) {
		response, err := http.Get("http://" + got.Address + "/healthz") //nolint:noctx // the test's own service
		if err != nil {
			return false, err.Error()
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK, response.Status
	})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", service.Process.Pid))
	if err != nil {
		t.Skipf("peak memory of a process is not available: %v", err)
	}
	var peak int
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, err = fmt.Sscan(rest, &peak)
			must(t, err)
		}
	}
	if peak == 0 || peak > 128<<10 {
		t.Errorf("the token service used %d KiB, but its chart allows 128 MiB", peak)
	}
}
