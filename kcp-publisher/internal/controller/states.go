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

// These metrics count runtimes and modules. The number of time series depends on the size of the catalog, not on the
// number of runtimes.
var (
	runtimesByState = measure.Definition{
		Name: "kyma_pull_publisher_runtimes", Help: "Runtimes by the state of their Kyma.", Kind: measure.KindGauge,
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
		Help: "Runtimes by the situation of their first cause, as kcp-publisher why shows it.",
		Kind: measure.KindGauge, Labels: []string{"situation"}, Leader: true,
	}
	modulesByState = measure.Definition{
		Name: "kyma_pull_publisher_modules",
		Help: "Modules of all runtimes by name and state; mandatory modules are not counted, because no status " +
			"contains them.",
		Kind: measure.KindGauge, Labels: []string{"module", "state"}, Leader: true,
	}
	modulesByVersion = measure.Definition{
		Name: "kyma_pull_publisher_module_versions",
		Help: "Modules of all runtimes by name, running version and state; (other) are modules and versions outside " +
			"the catalog, (unknown) are unreported versions.",
		Kind: measure.KindGauge, Labels: []string{"module", "version", "state"}, Leader: true,
	}
	oldestReport = measure.Definition{
		Name: "kyma_pull_publisher_oldest_report_timestamp_seconds",
		Help: "Unix time of the last report of the runtime that has been silent the longest, among those that have " +
			"reported.",
		Kind: measure.KindGauge, Leader: true,
	}
	publishPending = measure.Definition{
		Name: "kyma_pull_publisher_publish_pending",
		Help: "Runtimes that wait for their next bundle after a change of the control plane.",
		Kind: measure.KindGauge, Leader: true,
	}
	publishPendingSince = measure.Definition{
		Name: "kyma_pull_publisher_publish_pending_since_timestamp_seconds",
		Help: "Unix time since which the longest waiting runtime waits for its next bundle.",
		Kind: measure.KindGauge, Leader: true,
	}
	ofFleet = []measure.Definition{
		runtimesByState, runtimesByHealth, runtimesByCause, modulesByState, modulesByVersion, oldestReport,
		publishPending, publishPendingSince,
	}
	runtimeStates = newStates()
)

func init() { measure.Collect(runtimeStates, ofFleet...) }

// states exports the numbers of runtimes and modules as metrics. It is safe for concurrent use.
type states struct {
	mu     sync.Mutex // guards parts and counts
	parts  map[*part]struct{}
	counts map[fleetstate.Series]int
}

// part counts the runtimes of one publisher process or shard. While a Kyma moves between shards, it can be counted
// twice, but it is never missing.
type part struct {
	fleet *fleetstate.Fleet
	// ready returns true as soon as the publisher knows which Kymas have pending work. If ready is nil, the publisher
	// does not know this yet.
	ready func() bool
}

const (
	// otherModules is the metric label for modules and versions that are not in the catalog, because runtimes can
	// report any name. unknownVersion is the metric label if the runtime has not reported a version.
	otherModules   = "(other)"
	unknownVersion = "(unknown)"
)

// known reports which modules and versions are in the catalog. Only these have their own time series.
type known interface {
	Has(module string) bool
	HasVersion(module, version string) bool
}

func newStates() *states {
	return &states{parts: map[*part]struct{}{}, counts: map[fleetstate.Series]int{}}
}

func (s *states) join(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[p] = struct{}{}
}

// leave removes the counts of a part. It must be called when another process becomes responsible for the part's Kymas.
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

// seriesOf returns the time series that count a runtime. If a series counts several modules of the runtime, the result
// contains it several times.
func seriesOf(r fleet.Runtime, catalog known) []fleetstate.Series {
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

func (s *states) set(p *part, kyma types.NamespacedName, r fleet.Runtime, catalog known) {
	next := fleetstate.Counted{In: seriesOf(r, catalog)}
	if r.LastReport != nil {
		next.LastReport = *r.LastReport
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, joined := s.parts[p]; !joined {
		return // the part was removed by leave
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

func (s *states) drop(p *part, kyma types.NamespacedName) fleetstate.Runtime {
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped := p.fleet.Drop(kyma)
	s.add(dropped.Counted, -1)
	return dropped
}

func (s *states) add(c fleetstate.Counted, n int) {
	for _, in := range c.In {
		if s.counts[in] += n; s.counts[in] == 0 {
			delete(s.counts, in)
		}
	}
}

func (s *states) Describe(to chan<- *prometheus.Desc) {
	for _, d := range ofFleet {
		to <- d.Desc()
	}
}

func (s *states) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	counts, of := maps.Clone(s.counts), s.sum()
	s.mu.Unlock()
	if of.counted > 0 {
		for _, health := range []fleet.Health{fleet.Failing, fleet.Silent, fleet.NeverReported, fleet.Suspended,
			fleet.Deleting, fleet.Behind, fleet.Healthy} {
			counts[fleetstate.Series{Metric: runtimesByHealth.Name, First: string(health)}] += 0
		}
	}
	for _, d := range ofFleet {
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
	send(publishPendingSince, of.pending > 0, float64(of.since.Unix()))
}

// sums contains the totals of all parts. lastReport is the oldest last report of a runtime, and since is the time since
// which work is pending.
type sums struct {
	counted, pending  int
	lastReport, since time.Time
	ready             bool
}

// sum adds up the counts of all parts. The caller must hold s.mu.
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

// newestReport returns the time of a runtime's last report, or zero. It can be later than the time in the Kyma's
// status, because an unchanged report does not cause a status update.
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

func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// appliedAfter returns the time between issuing a bundle and receiving the first report that contains the bundle as
// applied. isFirst is false if after does not contain such a first report.
func appliedAfter(before, after v1beta2.KymaStatus) (took time.Duration, isFirst bool) {
	r := after.Runtime
	if r == nil || r.Published == nil || r.Observed == nil || r.Observed.Digest != r.Published.Digest ||
		r.Published.Digest == "" || r.Observed.Heard == nil {
		return 0, false
	}
	if was := before.Runtime; was != nil && was.Observed != nil && was.Observed.Digest == r.Observed.Digest {
		return 0, false
	}
	return max(r.Observed.Heard.Sub(r.Published.Time.Time), 0), true
}
