package measure

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	_ "sigs.k8s.io/controller-runtime" // registers the metrics that every manager exports
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

func gathered(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*dto.MetricFamily{}
	for _, f := range families {
		found[f.GetName()] = f
	}
	return found
}

var runs atomic.Int64

// name returns a new metric name each time, because a test can run several times in one process (-count).
func name(of string) string { return fmt.Sprintf("test_%d_%s", runs.Add(1), of) }

func TestUnsetMetricIsNotExported(t *testing.T) {
	known, refused := name("known"), name("refused_total")
	value := Gauge(Definition{Name: known, Help: "A value."})
	Counters(Definition{Name: refused, Help: "Refusals.", Labels: []string{"reason"}}, "Expired")
	if f := gathered(t)[known]; f != nil {
		t.Errorf("before the gauge was set: got %v, want no metric", f)
	}
	value.Set(0)
	if f := gathered(t)[known]; f == nil || f.GetMetric()[0].GetGauge().GetValue() != 0 {
		t.Errorf("after the gauge was set to 0: got %v, want 0", f)
	}
	value.Unset()
	if f := gathered(t)[known]; f != nil {
		t.Errorf("after the gauge was unset: got %v, want no metric", f)
	}
	if f := gathered(t)[refused]; f == nil || f.GetMetric()[0].GetCounter().GetValue() != 0 {
		t.Errorf("got counter %v, want 0 from the beginning", f)
	}
	all := Definitions()
	if !slices.ContainsFunc(all, func(d Definition) bool { return d.Name == known && d.Kind == KindGauge }) {
		t.Errorf("got definitions %v, want them to contain gauge %s", all, known)
	}
}

func TestDefaultGoMetricsAreLimited(t *testing.T) {
	count := func() (n int) {
		for name := range maps.Keys(gathered(t)) {
			if strings.HasPrefix(name, "go_") {
				n++
			}
		}
		return n
	}
	for range 2 { // a second manager in the same process registers the metrics again
		if err := GoRuntime(false); err != nil {
			t.Fatal(err)
		}
		if n := count(); n > 40 {
			t.Errorf("got %d metric families by default, want at most 40", n)
		}
	}
	names := gathered(t)
	for _, name := range []string{"go_goroutines", "go_memstats_heap_inuse_bytes", "go_info",
		"process_resident_memory_bytes", "process_cpu_seconds_total"} {
		if names[name] == nil {
			t.Errorf("metric %s is not exported", name)
		}
	}
	if err := GoRuntime(true); err != nil {
		t.Fatal(err)
	}
	if n := count(); n < 80 {
		t.Errorf("got %d metric families with all metrics, want at least 80", n)
	}
}

type failing struct{}

func (failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }

func TestRequestsAreCountedByMethodAndClass(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := map[string]int{"/missing": http.StatusNotFound, "/busy": http.StatusTooManyRequests,
			"/broken": http.StatusBadGateway}[r.URL.Path]
		if code != 0 {
			w.WriteHeader(code)
		}
	}))
	defer server.Close()
	duration := name("request_duration_seconds")
	measure := Requests(Definition{Name: duration, Help: "Requests."})
	ask := func(transport http.RoundTripper, method, path string) {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := measure(transport).RoundTrip(request)
		if err == nil {
			err = response.Body.Close()
		}
		if _, fails := transport.(failing); !fails && err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/", "/missing", "/busy", "/broken"} {
		ask(http.DefaultTransport, http.MethodGet, path)
	}
	ask(http.DefaultTransport, "BREW", "/")
	ask(failing{}, http.MethodPut, "/")
	var got []string
	for _, m := range gathered(t)[duration].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if m.GetHistogram().GetSampleCount() != 1 {
			t.Errorf("got %d requests with labels %v, want 1", m.GetHistogram().GetSampleCount(), labels)
		}
		got = append(got, labels["method"]+" "+labels["code"])
	}
	slices.Sort(got)
	if want := []string{"GET 2xx", "GET 429", "GET 4xx", "GET 5xx", "PUT error", "other 2xx"}; !slices.Equal(got,
		want) {
		t.Errorf("got requests %v, want %v", got, want)
	}
}

type constant struct{ of Definition }

func (c constant) Describe(to chan<- *prometheus.Desc) { to <- c.of.Desc() }

func (c constant) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(c.of.Desc(), prometheus.GaugeValue, 1)
}

func TestCollectorIsExportedUntilStopped(t *testing.T) {
	one := constant{Define(Definition{Name: name("collected"), Help: "A test.", Kind: KindGauge})[0]}
	if !slices.ContainsFunc(Definitions(), func(d Definition) bool { return d.Name == one.of.Name }) {
		t.Error("the metric is not defined")
	}
	isExported := func() bool { return gathered(t)[one.of.Name] != nil }
	if isExported() {
		t.Error("the metric is exported before its collector is registered")
	}
	for range 2 { // a program can start a second time in the same process
		stop, err := Export(one)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Export(one); err == nil {
			t.Error("a second collector of the metric was registered")
		}
		if !isExported() {
			t.Error("the metric of a registered collector is not exported")
		}
		if stop(); isExported() {
			t.Error("the metric is still exported")
		}
	}
}
