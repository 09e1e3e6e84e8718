package install

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// requestCount counts the installer's requests by verb and resource.
type requestCount struct {
	mu     sync.Mutex // guards counts
	counts map[string]int
}

func (c *requestCount) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		what := r.Method + " " + resourceIn(r.URL.Path)
		query := r.URL.Query()
		for _, kind := range []string{"watch", "dryRun"} {
			if query.Has(kind) {
				what += " " + kind
			}
		}
		c.mu.Lock()
		c.counts[what]++
		c.mu.Unlock()
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// resourceIn returns the resource and subresource of an API path.
func resourceIn(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := 2
	if parts[0] == "apis" {
		at = 3
	}
	if len(parts) > at+1 && parts[at] == "namespaces" && len(parts) > at+2 {
		at += 2
	}
	if len(parts) <= at {
		return "discovery"
	}
	if len(parts) > at+2 {
		return parts[at] + "/" + parts[at+2]
	}
	return parts[at]
}

// take returns the number of requests since the last call, and logs them.
func (c *requestCount) take(t *testing.T, what string) int {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := 0
	var text strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(c.counts)) {
		sum += c.counts[kind]
		fmt.Fprintf(&text, "\n%4d %s", c.counts[kind], kind)
	}
	t.Logf("%s: %d requests%s", what, sum, text.String())
	c.counts = map[string]int{}
	return sum
}

// applied returns the number of objects that the installer applied since the last call to take.
func (c *requestCount) applied() (sum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for kind, n := range c.counts {
		if strings.HasPrefix(kind, "PATCH ") && !strings.HasPrefix(kind, "PATCH manifests") {
			sum += n
		}
	}
	return sum
}

// A typical module has 27 objects of 17 kinds. The limits include discovery, the initial lists of watches, and Events.
// The number of requests does not depend on the machine's speed.
func TestInstallerSendsFewRequestsForTypicalModule(t *testing.T) {
	w := newWorld(t)
	w.halt()
	count := &requestCount{counts: map[string]int{}}
	w.config.Wrap(count.wrap)
	w.start()
	content, err := os.ReadFile("../../../integration/samplemodule/typical.yaml")
	require.NoError(t, err)
	typical := func(version string) string {
		return fmt.Sprintf(string(content), version, "example.org/lantern:"+version)
	}
	withCR := func(m *v1beta2.Manifest) {
		m.Spec.Resource = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "lantern.kyma-pull.dev/v1", "kind": "Lantern",
			"metadata": map[string]any{"name": "default"}, "spec": map[string]any{"text": "bright"},
		}}
		m.Spec.CustomResourcePolicy = v1beta2.PolicyCreateAndDelete
	}
	settled := func(what string) int {
		w.state("lantern", v1beta2.StateReady, "")
		time.Sleep(2 * time.Second) // watches receive the installer's own writes with a delay
		return count.take(t, what)
	}
	for _, step := range []struct {
		what string
		do   func()
		most int
	}{
		{"install", func() {
			w.wants("lantern", typical("1.0.0"), version("1.0.0"), withCR)
			w.runs(home, "lantern-manager")
		}, 80},
		{"promotion", func() {
			w.wants("lantern", typical("1.1.0"), version("1.1.0"), withCR)
			w.runsVersion(home, "lantern-manager", "1.1.0")
		}, 40},
	} {
		step.do()
		if n := settled(step.what); n > step.most {
			t.Errorf("%s: got %d requests, want at most %d", step.what, n, step.most)
		}
	}
	w.halt()
	w.start()
	w.eventually("the restarted installer applies each object once", func() bool { return count.applied() >= 25 })
	time.Sleep(2 * time.Second)
	if n := count.take(t, "restart"); n > 55 {
		t.Errorf("restart: got %d requests, want at most 55", n)
	}
	w.remove("lantern")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "lantern") })
	if n := count.take(t, "removal"); n > 140 {
		t.Errorf("removal: got %d requests, want at most 140", n)
	}
}

// runsVersion makes the Deployment ready once its image has this version.
func (w *world) runsVersion(namespace, name, version string) {
	w.Helper()
	d := &unstructured.Unstructured{}
	d.SetAPIVersion("apps/v1")
	d.SetKind("Deployment")
	w.eventually("Deployment "+name+" has version "+version, func() bool {
		if !w.exists(d, namespace, name) {
			return false
		}
		containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
		container, _ := containers[0].(map[string]any)
		return container["image"] == "example.org/lantern:"+version
	})
	w.runs(namespace, name)
}
