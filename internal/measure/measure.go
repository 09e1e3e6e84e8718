// Package measure defines the metrics for kcp-publisher and skr-agent. Package clitest generates
// docs/reference/metrics.md from Definitions.
//
// A gauge without a value is not exported. A standby replica does not know the value, and exporting 0 would raise
// alerts.
package measure

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Kind is the type of a metric in the exposition format.
type Kind string

// Metric kinds.
const (
	KindCounter   Kind = "counter"
	KindGauge     Kind = "gauge"
	KindHistogram Kind = "histogram"
)

// Definition describes a metric.
type Definition struct {
	Name, Help string
	Kind       Kind
	Labels     []string
	// Leader is true if only the leader exports the metric.
	Leader bool
}

var definedMetrics struct {
	mu  sync.Mutex // guards all
	all []Definition
}

// Definitions returns all defined metrics, sorted by name.
func Definitions() []Definition {
	definedMetrics.mu.Lock()
	defer definedMetrics.mu.Unlock()
	all := slices.Clone(definedMetrics.all)
	slices.SortFunc(all, func(a, b Definition) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Define defines a collector's metrics, and returns the definitions. A process exports the metrics as long as the
// collector is registered with Export.
func Define(definitions ...Definition) []Definition {
	definedMetrics.mu.Lock()
	defer definedMetrics.mu.Unlock()
	definedMetrics.all = append(definedMetrics.all, definitions...)
	return definitions
}

// Export registers a collector of defined metrics until the returned function is called.
func Export(collector prometheus.Collector) (stop func(), err error) {
	if err := metrics.Registry.Register(collector); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return func() { metrics.Registry.Unregister(collector) }, nil
}

func define(collector prometheus.Collector, definition Definition) {
	metrics.Registry.MustRegister(collector)
	Define(definition)
}

// Counter defines a counter that starts at 0.
func Counter(d Definition) prometheus.Counter {
	d.Kind = KindCounter
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: d.Name, Help: d.Help})
	define(c, d)
	return c
}

// Counters defines counters with labels. If the metric has one label, it exports 0 for the label values in start,
// because PromQL's increase() would otherwise miss the first event.
func Counters[T ~string](d Definition, start ...T) *prometheus.CounterVec {
	d.Kind = KindCounter
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
	for _, value := range start {
		c.WithLabelValues(string(value))
	}
	define(c, d)
	return c
}

// Gauges defines gauges with labels.
func Gauges(d Definition) *prometheus.GaugeVec {
	d.Kind = KindGauge
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
	define(g, d)
	return g
}

// Value is a gauge that is exported only after Set or Add. It is safe for concurrent use.
type Value struct{ vec *prometheus.GaugeVec }

// Gauge defines a gauge without labels. It is not exported until its value is set.
func Gauge(d Definition) Value { return Value{Gauges(d)} }

// Set sets the value and exports the gauge.
func (v Value) Set(value float64) { v.vec.WithLabelValues().Set(value) }

// Add adds to the value, or to 0 if no value is set.
func (v Value) Add(value float64) { v.vec.WithLabelValues().Add(value) }

// Unset stops exporting the gauge.
func (v Value) Unset() { v.vec.Reset() }

// Histograms defines histograms, with or without labels.
func Histograms(d Definition, buckets ...float64) *prometheus.HistogramVec {
	d.Kind = KindHistogram
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: buckets}, d.Labels)
	define(h, d)
	return h
}

// Desc returns the metric's prometheus.Desc.
func (d Definition) Desc() *prometheus.Desc {
	return prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
}
