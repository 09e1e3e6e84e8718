package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestRequestCountsExcludeWatchesKwokAndBench(t *testing.T) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(`# TYPE apiserver_request_total counter
apiserver_request_total{code="200",dry_run="",resource="services",subresource="",verb="APPLY"} 4
apiserver_request_total{code="200",dry_run="All",resource="services",subresource="",verb="APPLY"} 3
apiserver_request_total{code="200",dry_run="",resource="services",subresource="",verb="GET"} 2
apiserver_request_total{code="200",dry_run="",resource="deployments",subresource="status",verb="PATCH"} 100
apiserver_request_total{code="200",dry_run="",resource="",subresource="/metrics",verb="GET"} 100
apiserver_request_total{code="200",dry_run="",resource="services",subresource="",verb="WATCH"} 100
`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := count(families["apiserver_request_total"]), (requests{All: 9, Writes: 4, DryRuns: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestReadyIgnoresConditionsOfOtherVersions(t *testing.T) {
	manifest := func(version string, generation, observed int64) *unstructured.Unstructured {
		m := &v1beta2.Manifest{
			ObjectMeta: metav1.ObjectMeta{Name: "app", Generation: generation},
			Spec:       v1beta2.ManifestSpec{Version: version},
		}
		m.Status.State = v1beta2.StateReady
		m.Status.Conditions = []metav1.Condition{
			{Type: v1beta2.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: observed},
		}
		object, err := k8sruntime.DefaultUnstructuredConverter.ToUnstructured(m)
		if err != nil {
			t.Fatal(err)
		}
		return &unstructured.Unstructured{Object: object}
	}
	ready := (&pullProduct{}).ready(second)
	for _, c := range []struct {
		what     string
		manifest *unstructured.Unstructured
		want     bool
	}{
		{"previous version", manifest(first, 1, 1), false},
		{"new version with the condition of the previous version", manifest(second, 2, 1), false},
		{"new version with its own condition", manifest(second, 2, 2), true},
	} {
		if got := ready(c.manifest); got != c.want {
			t.Errorf("%s: ready is %t, want %t", c.what, got, c.want)
		}
	}
}

func TestBenchDelaysFirstRequestForNewBundle(t *testing.T) {
	var b bundleDelay
	ask := func(method, path string) {
		b.intercept(nil, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	}
	const bundle = "/v2/fleet/runtimes/one/manifests/desired"
	ask(http.MethodPut, bundle)
	ask(http.MethodGet, bundle)
	asked, answer := b.hold()
	ask(http.MethodGet, bundle) // returns the previous bundle
	ask(http.MethodPut, bundle)
	ask(http.MethodHead, bundle)
	ask(http.MethodGet, "/v2/fleet/reports/one/manifests/latest")
	select {
	case <-asked:
		t.Fatal("no runtime has read the new bundle")
	default:
	}
	var answered atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			ask(http.MethodGet, bundle)
			answered.Store(true)
		})
	}
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Fatal("the bundle was requested, but asked was not closed")
	}
	if answered.Load() {
		t.Error("the request got a response before the meter was read")
	}
	answer()
	answer()
	readers.Wait()
	ask(http.MethodGet, bundle)
}

func TestBenchmarkRequestsAreNotCounted(t *testing.T) {
	before, now := requests{All: 10, Writes: 4, DryRuns: 1}, requests{All: 40, Writes: 20, DryRuns: 5}
	if got, want := now.since(before.plus(changes(12))), (requests{All: 18, Writes: 4, DryRuns: 4}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, s := range []product{&fluxProduct{}, &pullProduct{}} {
		if own, err := s.requestReconcile(t.Context(), nil); err != nil || own != (requests{}) {
			t.Errorf("%s: ask without applications counts %+v: %v", s.name(), own, err)
		}
	}
}

func TestApplicationNamesAreUniqueAndHaveNoDigits(t *testing.T) {
	var names []string
	for i := range 1000 {
		names = append(names, appName(i))
	}
	if distinct := slices.Compact(slices.Sorted(slices.Values(names))); len(distinct) != len(names) ||
		strings.ContainsAny(strings.Join(names, ""), "0123456789") {
		t.Errorf("%d names of 1000, such as %v", len(distinct), distinct[:3])
	}
	documents := strings.Split(app(7, first).Manifest, "---\n")
	for _, document := range documents {
		var object unstructured.Unstructured
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil || object.GetName() != appName(7) {
			t.Errorf("%v\n%s", err, document)
		}
	}
	if len(documents) != 4 {
		t.Errorf("%d objects", len(documents))
	}
}

func TestTableShowsRatiosForCurrentAndPreviousRun(t *testing.T) {
	dir := t.TempDir()
	run := func(install float64) string {
		r := newResults(options{Apps: 3})
		r.Figures = map[string]map[string]float64{
			"kyma-pull": {"install": install, "idle CPU": 1}, "Flux": {"install": 10, "idle CPU": 0},
		}
		r.Reported = "3 of 3"
		var out bytes.Buffer
		if err := r.write(dir, &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	run(8)
	table := run(4)
	for _, want := range []string{
		"| install: start of the programs to all Ready | 4.00 s | 10.00 s | 0.40 | 0.35 | 0.80 |",
		"| idle: CPU | 1.0 millicores | 0.0 millicores |  |  |  |", "| 3 of 3 |",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "flux-3.md")); err != nil ||
		!strings.HasSuffix(table, string(data)) {
		t.Errorf("the file has %s %v", data, err)
	}
}

func TestCPUTimeIsMeasuredUntilProcessIsIdle(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec sleep 60")
	if err := cmd.Start(); err != nil {
		t.Skipf("no shell: %v", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // an error is expected, because the test killed the process
	}()
	since, used, err := untilRest(t.Context(), time.Minute, cmd.Process.Pid)
	if err != nil || used == 0 || time.Since(since) < restTime {
		t.Errorf("rests since %s after %s: %v", time.Since(since), used, err)
	}
}
