package manager

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

func free(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestMetricsWithoutAuthenticationUseLoopback(t *testing.T) {
	if got := parse(t).metricsAddress; got != "127.0.0.1:8080" {
		t.Errorf("got address %s, want 127.0.0.1:8080", got)
	}
}

func TestMetricsAndProbesAreServedAndRefuseLargeBodies(t *testing.T) {
	metrics, probes := free(t), free(t)
	f := parse(t, "--leader-elect=false", "--metrics-bind-address="+metrics, "--health-probe-bind-address="+probes,
		"--set=interval-jitter-percentage=0", "--set=pprof=true")
	mgr, err := f.New(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	defer func() { stop(); <-done }()
	client := http.Client{Timeout: 30 * time.Second}
	ask := func(method, address string, body io.Reader) (int, string) {
		request, err := http.NewRequestWithContext(ctx, method, "http://"+address, body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	for address, want := range map[string]string{
		metrics + "/metrics": "go_goroutines", metrics + "/debug/pprof/cmdline": "manager", probes + "/healthz": "ok",
		probes + "/readyz": "ok", probes + "/readyz/ping": "ok",
	} {
		if code, text := ask(http.MethodGet, address, nil); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: got status %d and %.200s, want 200 and %q", address, code, text, want)
		}
	}
	for _, address := range []string{metrics + "/metrics", probes + "/healthz"} {
		if code, _ := ask(http.MethodPost, address,
			strings.NewReader(strings.Repeat("x", 1<<20))); code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: got status %d for a large body, want 413", address, code)
		}
	}
}
