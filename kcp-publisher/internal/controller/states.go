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

// Metrics of runtimes and modules. Their series grow with the catalog, never with runtimes.
var (
	runtimesByState = measure.Definition{
		Name: "kyma_pull_publisher_runtimes", Help: "Runtimes by the state of their Kyma.", Kind: measure.KindGauge, Labels: []string{"state"}, Leader: true,
	}
	runtimesByHealth = measure.Definition{
		Name: "kyma_pull_publisher_runtime_health", Help: "Runtimes by health, each in one: Failing, Silent, NeverReported, Suspended, Deleting, Behind or Healthy.",
		Kind: measure.KindGauge, Labels: []string{"health"}, Leader: true,
	}
	runtimesByCause = measure.Definition{
		Name: "kyma_pull_publisher_runtime_causes", Help: "Runtimes by the first cause of what is in their way, as kcp-publisher why names it.",
		Kind: measure.KindGauge, Labels: []string{"situation"}, Leader: true,
	}
	modulesByState = measure.Definition{
		Name: "kyma_pull_publisher_modules", Help: "Modules of all runtimes by their name and state; mandatory modules, which no status tells of, are not counted.",
		Kind: measure.KindGauge, Labels: []string{"module", "state"}, Leader: true,
	}
	modulesByVersion = measure.Definition{
		Name: "kyma_pull_publisher_module_versions",
		Help: "Modules of all runtimes by name, version that runs and state; (other) stands for what the catalog does not have, (unknown) for a version that no report names.",
		Kind: measure.KindGauge, Labels: []string{"module", "version", "state"}, Leader: true,
	}
	oldestReport = measure.Definition{
		Name: "kyma_pull_publisher_oldest_report_timestamp_seconds", Help: "Unix time at which the runtime was heard that is silent for longest, of those that reported.",
		Kind: measure.KindGauge, Leader: true,
	}
	publishPending = measure.Definition{
		Name: "kyma_pull_publisher_publish_pending", Help: "Runtimes that wait for their next bundle, as a change of the control plane asks for it.",
		Kind: measure.KindGauge, Leader: true,
	}
	publishPendingSince = measure.Definition{
		Name: "kyma_pull_publisher_publish_pending_since_timestamp_seconds", Help: "Unix time since which the runtime waits for its next bundle that waits for longest.",
		Kind: measure.KindGauge, Leader: true,
	}
	ofFleet = []measure.Definition{
		runtimesByState, runtimesByHealth, runtimesByCause, modulesByState, modulesByVersion, oldestReport, publishPending, publishPendingSince,
	}
	runtimeStates = newStates()
)

func init() { measure.Collect(runtimeStates, ofFleet...) }

// states counts runtimes and their modules, so that no metric is labeled with a runtime. It exports nothing before the
// first one is counted. It is safe for concurrent use.
type states struct {
	mu    sync.Mutex // guards what follows, and the parts'
	parts map[*part]struct{}
	// counts are the numbers of runtimes and modules by metric and values of labels.
	counts map[fleetstate.Series]int
}

// part is what one publisher counts: of the whole fleet, or of one of the shards that this process has. A Kyma that
// goes from one shard to another is counted twice until the first one is told, and never lost.
type part struct {
	fleet *fleetstate.Fleet
	// ready reports whether it is known which Kymas have something to publish; nil if it is not.
	ready func() bool
}

const (
	// otherModules stands for modules and versions that the catalog does not have: their names are a runtime's own word,
	// of which there may be any number. unknownVersion stands for a version that no report names.
	otherModules   = "(other)"
	unknownVersion = "(unknown)"
)

// known are the modules and versions that have series of their own.
type known interface {
	Has(module string) bool
	HasVersion(module, version string) bool
}

func newStates() *states {
	return &states{parts: map[*part]struct{}{}, counts: map[fleetstate.Series]int{}}
}

// join begins a part.
func (s *states) join(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[p] = struct{}{}
}

// leave ends a part, if it began: its Kymas are counted elsewhere from now on.
func (s *states) leave(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, joined := s.parts[p]; !joined {
		return
	}
	p.fleet.Each(func(_ fleetstate.Key, r *fleetstate.Runtime) {
		s.add(r.Counted, -1)
		r.Counted = fleetstate.Counted{}
	})
	delete(s.parts, p)
}

// seriesOf returns where a runtime is counted, each series once for each time that it counts.
func seriesOf(r fleet.Runtime, catalog known) []fleetstate.Series {
	all := []fleetstate.Series{{Metric: runtimesByState.Name, First: string(r.State)}, {Metric: runtimesByHealth.Name, First: string(r.Health)}}
	if r.Cause != nil {
		all = append(all, fleetstate.Series{Metric: runtimesByCause.Name, First: string(r.Cause.Situation)})
	}
	for _, m := range r.Modules {
		name, version := m.Name, m.Version
		switch {
		case !catalog.Has(name):
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

// set counts a Kyma of a part as its runtime is judged. LastReport is when it was heard.
func (s *states) set(p *part, kyma types.NamespacedName, r fleet.Runtime, catalog known) {
	next := fleetstate.Counted{In: seriesOf(r, catalog)}
	if r.LastReport != nil {
		next.LastReport = *r.LastReport
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, joined := s.parts[p]; !joined {
		return // the part has ended
	}
	p.fleet.Edit(kyma, func(r *fleetstate.Runtime) {
		if slices.Equal(r.Counted.In, next.In) {
			next.In = r.Counted.In
		} else {
			s.add(r.Counted, -1)
			s.add(next, 1)
		}
		r.Counted = next
	})
}

// drop deletes the record of a Kyma that is gone and stops counting it.
func (s *states) drop(p *part, kyma types.NamespacedName) fleetstate.Runtime {
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped := p.fleet.Drop(kyma)
	s.add(dropped.Counted, -1)
	return dropped
}

// add counts; the mutex is held.
func (s *states) add(c fleetstate.Counted, n int) {
	for _, in := range c.In {
		if s.counts[in] += n; s.counts[in] == 0 {
			delete(s.counts, in)
		}
	}
}

// Describe sends what describes the metrics.
func (s *states) Describe(to chan<- *prometheus.Desc) {
	for _, d := range ofFleet {
		to <- d.Desc()
	}
}

// Collect sends the metrics as they are now.
func (s *states) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	counts, of := maps.Clone(s.counts), s.sum()
	s.mu.Unlock()
	if of.counted > 0 {
		for _, health := range []fleet.Health{fleet.Failing, fleet.Silent, fleet.NeverReported, fleet.Suspended, fleet.Deleting, fleet.Behind, fleet.Healthy} {
			counts[fleetstate.Series{Metric: runtimesByHealth.Name, First: string(health)}] += 0
		}
	}
	for _, d := range ofFleet {
		for in, n := range counts {
			if in.Metric == d.Name {
				to <- prometheus.MustNewConstMetric(d.Desc(), prometheus.GaugeValue, float64(n), []string{in.First, in.Second, in.Third}[:len(d.Labels)]...)
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
	send(publishPendingSince, of.pending > 0, float64(of.since.Unix()))
}

// sums are the numbers of all parts together, and the oldest times.
type sums struct {
	counted, pending  int
	lastReport, since time.Time
	ready             bool
}

// sum adds up the records of all parts; the mutex is held.
func (s *states) sum() (all sums) {
	for p := range s.parts {
		ready := p.ready != nil && p.ready()
		all.ready = all.ready || ready
		p.fleet.Each(func(_ fleetstate.Key, r *fleetstate.Runtime) {
			if len(r.Counted.In) > 0 {
				all.counted++
				all.lastReport = older(all.lastReport, newestReport(r))
			}
			if ready && !r.Pending.Since.IsZero() {
				all.pending++
				all.since = older(all.since, r.Pending.Since)
			}
		})
	}
	return all
}

// newestReport returns the time of a runtime's last report, zero for none. A report without news changes no status, so
// the known report may be newer than the counted status. A runtime whose first report is postponed counts as reporting
// until then: its status may be a day old.
func newestReport(r *fleetstate.Runtime) time.Time {
	at := r.Counted.LastReport
	known := r.Report.Arrived
	if r.Report.Accepted == nil && r.Report.Asked.IsZero() && !r.Report.Postponed.IsZero() {
		known = r.Report.Postponed.Add(-restingPoll)
	}
	if known.After(at) {
		return known
	}
	return at
}

// older returns the older of two times, zero standing for none.
func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// appliedAfter returns how long it took from issuing a bundle to the report that first names it as in force; is false
// where a status does not say that of a bundle of which the one before did not say it.
func appliedAfter(before, after v1beta2.KymaStatus) (took time.Duration, is bool) {
	r := after.Runtime
	if r == nil || r.Published == nil || r.Observed == nil || r.Observed.Digest != r.Published.Digest || r.Published.Digest == "" || r.Observed.Heard == nil {
		return 0, false
	}
	if was := before.Runtime; was != nil && was.Observed != nil && was.Observed.Digest == r.Observed.Digest {
		return 0, false
	}
	return max(r.Observed.Heard.Sub(r.Published.Time.Time), 0), true
}
