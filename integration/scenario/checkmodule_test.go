package scenario

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// shippedChecks contains a module's checks. %[1]s is its objects' namespace.
const shippedChecks = `checks:
- name: configured
  cel: {apiVersion: v1, kind: ConfigMap, namespace: %[1]s, expression: 'objects.exists(o, o.data.mode == "fast")'}
- name: healthy
  http:
    service: {namespace: %[1]s, name: app, port: 80}
    path: /healthz
    expression: body.queue < 100
- name: latency
  promql:
    service: {namespace: %[1]s, name: app, port: 80}
    query: latency
    maxIncreasePercent: 50
`

// moduleEndpoint is an application with a health check and a Prometheus-compatible API.
func moduleEndpoint(w http.ResponseWriter, r *http.Request) {
	body := `{"queue":7}`
	if strings.HasPrefix(r.URL.Path, "/api/v1/query") {
		w.Header().Set("Content-Type", "application/json")
		body = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0.25"]}]}}`
	}
	_, _ = fmt.Fprint(w, body)
}

func TestCheckModuleMeasuresInARealCluster(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	own, err := fleet.OwnAddress()
	if err != nil {
		t.Skip(err)
	}
	endpoint := httptest.NewUnstartedServer(http.HandlerFunc(moduleEndpoint))
	must(t, endpoint.Listener.Close())
	endpoint.Listener, err = net.Listen("tcp", net.JoinHostPort(own, "0"))
	must(t, err)
	endpoint.Start()
	t.Cleanup(endpoint.Close)
	namespace := f.Own("checked")
	must(t, fleet.ExposeEndpoint(ctx, f.Control, client.ObjectKey{Namespace: namespace, Name: "app"}, 80,
		netip.MustParseAddrPort(endpoint.Listener.Addr().String())))
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"mode": "fast"},
	}
	must(t, f.Control.Create(ctx, config))
	file := filepath.Join(t.TempDir(), "checks.yaml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, shippedChecks, namespace), 0o600))
	command := []string{"check-module", file, "--interval", "1ms", "--measurements", "3"}

	passing := ask(t, f, append(command, "--before", "latency=0.2")...)
	for _, want := range []string{
		"configured  success  Inconclusive", "configured  success  Passed", "healthy  success  Passed",
		"latency  success  Passed        0.25", "all 3 checks passed",
	} {
		if !strings.Contains(passing, want) {
			t.Errorf("passing checks: want %q in\n%s", want, passing)
		}
	}
	config.Data["mode"] = "slow"
	must(t, f.Control.Update(ctx, config))
	failing, err := f.Ask(ctx, append(command, "--before", "latency=0.1")...)
	for _, want := range []string{
		"configured  failure  Failed", "healthy  success  Passed", "latency  failure  Failed        0.25",
		"configured is Failed, latency is Failed",
	} {
		if err == nil || !strings.Contains(failing, want) {
			t.Errorf("failing checks: got error %v, want %q in\n%s", err, want, failing)
		}
	}
	if unknown, err := f.Ask(ctx, append(command, "--check", "latency")...); err == nil ||
		!strings.Contains(unknown, "latency is Inconclusive") {
		t.Errorf("without a value before the upgrade: got error %v and output\n%s", err, unknown)
	}
}
