package controller

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/measure"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// Metrics that count runtimes and modules. The number of time series depends on the size of the catalog, not on the
// number of runtimes.
var (
	runtimesByState = measure.Definition{
		Name: "kyma_pull_publisher_runtimes", Help: "Runtimes, by the state of their Kyma.", Kind: measure.KindGauge,
		Labels: []string{"state"}, Leader: true,
	}
	runtimesByHealth = measure.Definition{
		Name: "kyma_pull_publisher_runtime_health",
		Help: "Runtimes by health: Failing, Silent, NeverReported, Suspended, Deleting, Behind or Healthy. Each " +
			"runtime is counted once.",
		Kind: measure.KindGauge, Labels: []string{"health"}, Leader: true,
	}
	runtimesByCause = measure.Definition{
		Name: "kyma_pull_publisher_runtime_causes",
		Help: "Runtimes by the situation that kcp-publisher why shows. Runtimes whose version a rollout holds back " +
			"are counted without a situation.",
		Kind: measure.KindGauge, Labels: []string{"situation"}, Leader: true,
	}
	modulesByState = measure.Definition{
		Name: "kyma_pull_publisher_modules",
		Help: "Modules in all runtimes, by name and state; mandatory modules are not counted, because no status " +
			"contains them.",
		Kind: measure.KindGauge, Labels: []string{"module", "state"}, Leader: true,
	}
	modulesByVersion = measure.Definition{
		Name: "kyma_pull_publisher_module_versions",
		Help: "Modules in all runtimes, by name, running version and state; (other) are modules and versions outside " +
			"the catalog, (unknown) are unreported versions.",
		Kind: measure.KindGauge, Labels: []string{"module", "version", "state"}, Leader: true,
	}
	oldestReport = measure.Definition{
		Name: "kyma_pull_publisher_oldest_report_timestamp_seconds",
		Help: "Unix time of the last report from the runtime that has been silent the longest, among those that have " +
			"reported.",
		Kind: measure.KindGauge, Leader: true,
	}
	publishPending = measure.Definition{
		Name: "kyma_pull_publisher_publish_pending",
		Help: "Runtimes that wait for their next bundle after a change to the control plane.",
		Kind: measure.KindGauge, Leader: true,
	}
	publishPendingSince = measure.Definition{
		Name: "kyma_pull_publisher_publish_pending_since_timestamp_seconds",
		Help: "Unix time at which the longest waiting runtime began to wait for its next bundle.",
		Kind: measure.KindGauge, Leader: true,
	}
	registryFailing = measure.Definition{
		Name: "kyma_pull_publisher_registry_failing_runtimes",
		Help: "Runtimes whose registry requests fail while the requests of other runtimes succeed.",
		Kind: measure.KindGauge, Leader: true,
	}
	fleetMetrics = measure.Define(
		runtimesByState, runtimesByHealth, runtimesByCause, modulesByState, modulesByVersion, oldestReport,
		publishPending, publishPendingSince, registryFailing,
	)
)

// FleetMetrics collects the numbers of runtimes and modules as metrics. All shards in a process share one
// FleetMetrics. FleetMetrics is safe for concurrent use.
type FleetMetrics struct {
	mu     sync.Mutex // guards parts and counts
	parts  map[*metricsPart]struct{}
	counts map[fleetstate.Series]int
}

// metricsPart counts one shard's runtimes, or all runtimes if the publisher does not use shards. While a Kyma moves to
// another shard, both shards can count it.
type metricsPart struct {
	all   *FleetMetrics
	fleet *fleetstate.Fleet
	// isReady returns true after the Kymas with pending work are known. If isReady is nil, they are never known.
	isReady func() bool
}

const (
	// otherModules is the label value for modules and versions that are not in the catalog, because runtimes can
	// report any name. unknownVersion is the label value for a version that the runtime has not reported.
	otherModules   = "(other)"
	unknownVersion = "(unknown)"
)

// moduleCatalog reports which modules and versions are in the catalog. Only these have their own time series.
type moduleCatalog interface {
	HasModule(module string) bool
	HasVersion(module, version string) bool
}

// NewFleetMetrics returns a FleetMetrics without runtimes. The caller must register it with measure.Export.
func NewFleetMetrics() *FleetMetrics {
	return &FleetMetrics{parts: map[*metricsPart]struct{}{}, counts: map[fleetstate.Series]int{}}
}

func (s *FleetMetrics) addPart(fleet *fleetstate.Fleet, isReady func() bool) *metricsPart {
	p := &metricsPart{all: s, fleet: fleet, isReady: isReady}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[p] = struct{}{}
	return p
}

// remove removes the counts of a part. It must be called when another process becomes responsible for the part's Kymas.
func (p *metricsPart) remove() {
	s := p.all
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, joined := s.parts[p]; !joined {
		return
	}
	p.fleet.ForEach(func(_ fleetstate.Key, r *fleetstate.Runtime) {
		s.addSeries(r.CountedSeries, -1)
		r.CountedSeries = fleetstate.CountedSeries{}
	})
	delete(s.parts, p)
}

// runtimeSeries returns the time series that count a runtime. If a series counts several of the runtime's modules, the
// result contains it several times.
func runtimeSeries(r fleet.Runtime, catalog moduleCatalog) []fleetstate.Series {
	all := []fleetstate.Series{
		{Metric: runtimesByState.Name, First: string(r.State)}, {
			Metric: runtimesByHealth.Name, First: string(r.Health),
		},
	}
	if r.Cause != nil {
		all = append(all, fleetstate.Series{Metric: runtimesByCause.Name, First: string(r.Cause.Situation)})
	}
	for _, m := range r.Modules {
		name, version := m.Name, m.Version
		switch {
		case !catalog.HasModule(name):
			name, version = otherModules, otherModules
		case version == "":
			version = unknownVersion
		case !catalog.HasVersion(name, version):
			version = otherModules
		}
		all = append(all,
			fleetstate.Series{Metric: modulesByState.Name, First: name, Second: string(m.State)},
			fleetstate.Series{Metric: modulesByVersion.Name, First: name, Second: version, Third: string(m.State)})
	}
	return all
}

func (p *metricsPart) setRuntime(kyma types.NamespacedName, r fleet.Runtime, catalog moduleCatalog) {
	s, next := p.all, fleetstate.CountedSeries{Series: runtimeSeries(r, catalog)}
	if r.LastReport != nil {
		next.LastReport = *r.LastReport
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, joined := s.parts[p]; !joined {
		return // remove was called
	}
	p.fleet.Edit(kyma, func(r *fleetstate.Runtime) {
		if slices.Equal(r.CountedSeries.Series, next.Series) {
			next.Series = r.CountedSeries.Series
		} else {
			s.addSeries(r.CountedSeries, -1)
			s.addSeries(next, 1)
		}
		r.CountedSeries = next
	})
}

// dropRuntime deletes the in-memory state of a Kyma, and its counts.
func (p *metricsPart) dropRuntime(kyma types.NamespacedName) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.all.addSeries(p.fleet.Delete(kyma).CountedSeries, -1)
}

func (s *FleetMetrics) addSeries(c fleetstate.CountedSeries, n int) {
	for _, in := range c.Series {
		if s.counts[in] += n; s.counts[in] == 0 {
			delete(s.counts, in)
		}
	}
}

// Describe implements prometheus.Collector.
func (s *FleetMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range fleetMetrics {
		to <- d.Desc()
	}
}

// Collect implements prometheus.Collector.
func (s *FleetMetrics) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	counts, of := maps.Clone(s.counts), s.sumParts()
	s.mu.Unlock()
	if of.counted > 0 {
		for _, health := range []fleet.Health{fleet.Failing, fleet.Silent, fleet.NeverReported, fleet.Suspended,
			fleet.Deleting, fleet.Behind, fleet.Healthy} {
			counts[fleetstate.Series{Metric: runtimesByHealth.Name, First: string(health)}] += 0
		}
	}
	for _, d := range fleetMetrics {
		for in, n := range counts {
			if in.Metric == d.Name {
				to <- prometheus.MustNewConstMetric(d.Desc(), prometheus.GaugeValue, float64(n),
					[]string{in.First, in.Second, in.Third}[:len(d.Labels)]...)
			}
		}
	}
	send := func(d measure.Definition, known bool, value float64) {
		if known {
			to <- prometheus.MustNewConstMetric(d.Desc(), prometheus.GaugeValue, value)
		}
	}
	send(oldestReport, !of.lastReport.IsZero(), float64(of.lastReport.Unix()))
	send(publishPending, of.ready, float64(of.pending))
	send(publishPendingSince, of.pending > 0, float64(of.pendingSince.Unix()))
	send(registryFailing, of.counted+of.failing > 0, float64(of.failing))
}

// totalCounts contains the totals for all parts.
type totalCounts struct {
	// failing is the number of runtimes with a Backoff.
	counted, pending, failing int
	// lastReport is the oldest among all runtimes' last report times. pendingSince is when the longest-waiting runtime
	// started to wait for its next bundle.
	lastReport, pendingSince time.Time
	ready                    bool
}

// sumParts adds up all parts' counts. The caller must hold s.mu.
func (s *FleetMetrics) sumParts() (all totalCounts) {
	for p := range s.parts {
		ready := p.isReady != nil && p.isReady()
		all.ready = all.ready || ready
		all.failing += p.fleet.CountFailing()
		p.fleet.ForEach(func(_ fleetstate.Key, r *fleetstate.Runtime) {
			if len(r.CountedSeries.Series) > 0 {
				all.counted++
				all.lastReport = olderTime(all.lastReport, newestReportTime(r))
			}
			if ready && !r.Pending.Since.IsZero() {
				all.pending++
				all.pendingSince = olderTime(all.pendingSince, r.Pending.Since)
			}
		})
	}
	return all
}

// newestReportTime returns the time of a runtime's last report, or zero. It can be later than the time in the Kyma's
// status, because an unchanged report does not cause a status update.
func newestReportTime(r *fleetstate.Runtime) time.Time {
	at := r.CountedSeries.LastReport
	known := r.Report.ArrivedAt
	if r.Report.Accepted == nil && r.Report.AskedAt.IsZero() && !r.Report.PostponedTo.IsZero() {
		known = r.Report.PostponedTo.Add(-maxRestingPoll)
	}
	if known.After(at) {
		return known
	}
	return at
}

func olderTime(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// applyTime returns the time from a bundle's creation to the arrival of the first report that lists the bundle as
// applied. before and after are consecutive statuses. isFirst is false if after does not contain such a report, or if
// before already contained one.
func applyTime(before, after v1beta2.KymaStatus) (took time.Duration, isFirst bool) {
	r := after.Runtime
	if !r.HasAppliedNewest() || r.Observed.Heard == nil || before.Runtime.HasApplied(r.Published.Digest) {
		return 0, false
	}
	return max(r.Observed.Heard.Sub(r.Published.Time.Time), 0), true
}
