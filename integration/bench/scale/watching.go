package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

type families map[string]*dto.MetricFamily

func parseMetrics(data []byte) (families, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(bytes.NewReader(data))
}

// sum returns the sum of a metric's series with these labels.
func (f families) sum(name string, labels map[string]string) (total float64) {
	for _, m := range f[name].GetMetric() {
		if matches(m, labels) {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return total
}

// histogramTotals returns the number of observations in a histogram's series with these labels, and the sum of these
// observations in seconds.
func (f families) histogramTotals(name string, labels map[string]string) (n uint64, seconds float64) {
	for _, m := range f[name].GetMetric() {
		if matches(m, labels) {
			n, seconds = n+m.GetHistogram().GetSampleCount(), seconds+m.GetHistogram().GetSampleSum()
		}
	}
	return n, seconds
}

func matches(m *dto.Metric, labels map[string]string) bool {
	have := map[string]string{}
	for _, l := range m.GetLabel() {
		have[l.GetName()] = l.GetValue()
	}
	for name, want := range labels {
		if have[name] != want {
			return false
		}
	}
	return true
}

// writesByResource counts changing requests by "VERB resource", without Leases.
type writesByResource map[string]float64

func (w *world) writes(ctx context.Context) (writesByResource, error) {
	data, err := w.api.Get().AbsPath("/metrics").Timeout(time.Minute).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	f, err := parseMetrics(data)
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	found := writesByResource{}
	for _, m := range f["apiserver_request_total"].GetMetric() {
		of := map[string]string{}
		for _, l := range m.GetLabel() {
			of[l.GetName()] = l.GetValue()
		}
		switch of["verb"] {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE":
			if of["resource"] != "leases" {
				found[strings.TrimSuffix(of["verb"]+" "+of["resource"]+"/"+of["subresource"], "/")] += m.GetCounter().
					GetValue()
			}
		}
	}
	return found, nil
}

func (w writesByResource) since(before writesByResource) writesByResource {
	later := writesByResource{}
	for kind, n := range w {
		if n > before[kind] {
			later[kind] = n - before[kind]
		}
	}
	return later
}

func (w writesByResource) total() (n float64) {
	for _, of := range w {
		n += of
	}
	return n
}

// statusPatches is the key for patches of a Kyma's status.
const statusPatches = "PATCH kymas/status"

// getMetrics sends a GET request for a path to the publisher's metrics endpoint and returns the response.
func (w *world) getMetrics(ctx context.Context, path string) ([]byte, error) {
	data, err := get(ctx, w.metrics, path)
	if err != nil {
		return nil, fmt.Errorf("get %s from the publisher: %w", path, err)
	}
	return data, nil
}

func (w *world) publisherMetrics(ctx context.Context) (families, error) {
	data, err := w.getMetrics(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return parseMetrics(data)
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// liveHeap returns the size of the publisher's heap after a garbage collection.
func (w *world) liveHeap(ctx context.Context) (int64, error) {
	data, err := w.getMetrics(ctx, "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	found := heapAlloc.FindSubmatch(data)
	if found == nil {
		return 0, fmt.Errorf("the publisher's heap profile has no HeapAlloc")
	}
	return strconv.ParseInt(string(found[1]), 10, 64)
}

const profileSeconds = 15

// profile takes profiles of the publisher, the registry and the API server during a stage, if enabled.
func (w *world) profile(ctx context.Context) (stop func()) {
	if w.Profiles == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	name := filepath.Join(w.Profiles, fmt.Sprintf("fleet-%d-%s", w.Runtimes, w.stage))
	cpu := fmt.Sprintf("/debug/pprof/profile?seconds=%d", profileSeconds)
	published := w.publisher != nil && w.publisher.running()
	var all sync.WaitGroup
	take := func(of string, from func() ([]byte, error)) {
		all.Go(func() {
			data, err := from()
			if err == nil {
				err = w.keep(data, name+of+".cpu.pprof")
			}
			if err != nil {
				w.say("no CPU profile%s: the program was replaced during the stage: %v", of, err)
			}
		})
	}
	if published {
		take("", func() ([]byte, error) { return w.getMetrics(ctx, cpu) })
	}
	take(".registry", func() ([]byte, error) { return get(ctx, w.registry.traffic, cpu) })
	take(".kube-apiserver", func() ([]byte, error) {
		return w.api.Get().AbsPath("/debug/pprof/profile").Param("seconds", strconv.Itoa(profileSeconds)).
			Timeout(time.Minute).DoRaw(ctx)
	})
	return func() {
		heap, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer stop()
		if published {
			if err := w.save(heap, "/debug/pprof/heap", name+".heap.pprof"); err != nil {
				w.say("no heap profile: %v", err)
			}
		}
		all.Wait() // a profile can take longer than the stage
		cancel()
	}
}

func (w *world) save(ctx context.Context, path, file string) error {
	data, err := w.getMetrics(ctx, path)
	if err != nil {
		return err
	}
	return w.keep(data, file)
}

func (w *world) keep(data []byte, file string) error {
	if err := os.MkdirAll(w.Profiles, 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// otherCPUShare returns the share of the machine's CPU time that other programs used.
func (t cpuTimes) otherCPUShare(took time.Duration) float64 {
	ours := time.Duration(0)
	for _, d := range t.by {
		ours += d
	}
	return max(0, (t.machine-ours).Seconds()/took.Seconds()/float64(runtime.NumCPU()))
}
