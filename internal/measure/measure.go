// Package measure makes the metrics of both programs. In go a metric's name, type, labels and help, out comes what is
// counted with; every metric is in Definitions, from which docs/reference/metrics.md is generated. What nobody has set
// yet is not exported: a gauge that is 0 because nobody knew better would raise alarms on every replica that stands by.
package measure

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Kind is the type of a metric as the exposition format names it.
type Kind string

// Kinds of metrics.
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
	// Leader says that only the replica that holds the lease has values for it, or counts in it.
	Leader bool
}

var defined struct {
	mu  sync.Mutex // guards all
	all []Definition
}

// Definitions returns all metrics that this program has made, by name.
func Definitions() []Definition {
	defined.mu.Lock()
	defer defined.mu.Unlock()
	all := slices.Clone(defined.all)
	slices.SortFunc(all, func(a, b Definition) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// define notes metrics and registers what exports them.
func define(collector prometheus.Collector, definitions ...Definition) {
	metrics.Registry.MustRegister(collector)
	defined.mu.Lock()
	defer defined.mu.Unlock()
	defined.all = append(defined.all, definitions...)
}

// Counter makes a counter that starts at 0.
func Counter(d Definition) prometheus.Counter {
	d.Kind = KindCounter
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: d.Name, Help: d.Help})
	define(c, d)
	return c
}

// Counters makes counters with labels. Those with the given values of the one label start at 0: a counter that appears
// with its first event hides that event from increase().
func Counters[T ~string](d Definition, start ...T) *prometheus.CounterVec {
	d.Kind = KindCounter
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
	for _, value := range start {
		c.WithLabelValues(string(value))
	}
	define(c, d)
	return c
}

// Gauges makes gauges with labels.
func Gauges(d Definition) *prometheus.GaugeVec {
	d.Kind = KindGauge
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
	define(g, d)
	return g
}

// Value is a gauge that is exported only while it is known. It is safe for concurrent use.
type Value struct{ vec *prometheus.GaugeVec }

// Gauge makes a gauge without labels, which is not known yet.
func Gauge(d Definition) Value { return Value{Gauges(d)} }

// Set makes the value known.
func (v Value) Set(value float64) { v.vec.WithLabelValues().Set(value) }

// Add adds to the value, which counts as 0 where it was not known.
func (v Value) Add(value float64) { v.vec.WithLabelValues().Add(value) }

// Unset makes the value unknown.
func (v Value) Unset() { v.vec.Reset() }

// Histograms makes histograms, with labels or none.
func Histograms(d Definition, buckets ...float64) *prometheus.HistogramVec {
	d.Kind = KindHistogram
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: buckets}, d.Labels)
	define(h, d)
	return h
}

// Collect registers a collector of metrics that are computed when they are asked for.
func Collect(collector prometheus.Collector, definitions ...Definition) {
	define(collector, definitions...)
}

// Desc returns what a collector describes a metric by.
func (d Definition) Desc() *prometheus.Desc {
	return prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
}
