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

// states counts runtimes and their modules, so that no metric is labeled with a runtime. It exports nothing before the first one is counted. It is
// safe for concurrent use.
type states struct {
	mu    sync.Mutex // guards what follows, and the parts'
	parts map[*part]struct{}
	// counts are the numbers of runtimes and modules by metric and values of labels.
	counts map[timeSeries]int
}

// part is what one publisher counts: of the whole fleet, or of one of the shards that this process has. A Kyma that goes from one shard to another
// is counted twice until the first one is told, and never lost.
type part struct {
	of map[types.NamespacedName]counted
	// heard returns when a Kyma's runtime was heard as far as it is remembered, zero for what is not; nil for none at all.
	heard func(types.NamespacedName) time.Time
	// due returns the Kymas that wait, nil while nobody knows; it is nil itself for none at all.
	due func() *due
}

// timeSeries names a time series.
type timeSeries struct{ metric, first, second, third string }

// counted is what one Kyma adds to the metrics.
type counted struct {
	in    []timeSeries
	heard time.Time
}

const (
	// otherModules stands for modules and versions that the catalog does not have: their names are a runtime's own word, of which there may be any
	// number. unknownVersion stands for a version that no report names.
	otherModules   = "(other)"
	unknownVersion = "(unknown)"
)

// known are the modules and versions that have series of their own.
type known interface {
	Has(module string) bool
	HasVersion(module, version string) bool
}

func newStates() *states {
	return &states{parts: map[*part]struct{}{}, counts: map[timeSeries]int{}}
}

// join begins a part.
func (s *states) join(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.of = map[types.NamespacedName]counted{}
	s.parts[p] = struct{}{}
}

// leave ends a part, if it began: its Kymas are counted elsewhere from now on.
func (s *states) leave(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range p.of {
		s.add(c, -1)
	}
	p.of = nil
	delete(s.parts, p)
}

// seriesOf returns where a runtime is counted, each series once for each time that it counts.
func seriesOf(r fleet.Runtime, catalog known) []timeSeries {
	all := []timeSeries{{metric: runtimesByState.Name, first: string(r.State)}, {metric: runtimesByHealth.Name, first: string(r.Health)}}
	if r.Cause != nil {
		all = append(all, timeSeries{metric: runtimesByCause.Name, first: string(r.Cause.Situation)})
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
		all = append(all, timeSeries{modulesByState.Name, name, string(m.State), ""}, timeSeries{modulesByVersion.Name, name, version, string(m.State)})
	}
	return all
}

// set counts a Kyma of a part as its runtime is judged. LastReport is when it was heard.
func (s *states) set(p *part, kyma types.NamespacedName, r fleet.Runtime, catalog known) {
	next := counted{in: seriesOf(r, catalog)}
	if r.LastReport != nil {
		next.heard = *r.LastReport
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.of == nil {
		return // the part has ended
	}
	before := p.of[kyma]
	if slices.Equal(before.in, next.in) {
		next.in = before.in
	} else {
		s.add(before, -1)
		s.add(next, 1)
	}
	p.of[kyma] = next
}

func (s *states) forget(p *part, kyma types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(p.of[kyma], -1)
	delete(p.of, kyma)
}

// add counts; the mutex is held.
func (s *states) add(c counted, n int) {
	for _, in := range c.in {
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
	counts, parts, counted := maps.Clone(s.counts), make(map[*part]map[types.NamespacedName]time.Time, len(s.parts)), 0
	for p := range s.parts {
		parts[p] = make(map[types.NamespacedName]time.Time, len(p.of))
		counted += len(p.of)
		for kyma, c := range p.of {
			parts[p][kyma] = c.heard
		}
	}
	s.mu.Unlock()
	if counted > 0 {
		for _, health := range []fleet.Health{fleet.Failing, fleet.Silent, fleet.NeverReported, fleet.Suspended, fleet.Deleting, fleet.Behind, fleet.Healthy} {
			counts[timeSeries{metric: runtimesByHealth.Name, first: string(health)}] += 0
		}
	}
	for _, d := range ofFleet {
		for in, n := range counts {
			if in.metric == d.Name {
				to <- prometheus.MustNewConstMetric(d.Desc(), prometheus.GaugeValue, float64(n), []string{in.first, in.second, in.third}[:len(d.Labels)]...)
			}
		}
	}
	var heard, waits time.Time // the oldest
	waiting, known := 0, false
	for p, counted := range parts {
		heard = older(heard, oldestOf(counted, p.heard))
		if p.due == nil {
			continue
		}
		if d := p.due(); d != nil {
			n, since := d.waiting()
			waiting, waits, known = waiting+n, older(waits, since), true
		}
	}
	tell := func(d measure.Definition, is bool, value float64) {
		if is {
			to <- prometheus.MustNewConstMetric(d.Desc(), prometheus.GaugeValue, value)
		}
	}
	tell(oldestReport, !heard.IsZero(), float64(heard.Unix()))
	tell(publishPending, known, float64(waiting))
	tell(publishPendingSince, waiting > 0, float64(waits.Unix()))
}

// older returns the older of two times, zero standing for none.
func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// oldestOf returns when the runtime was heard that was not heard for longest, zero where none was. What is remembered may be newer than what was
// counted: a report that says nothing new changes no status.
func oldestOf(counted map[types.NamespacedName]time.Time, remembered func(types.NamespacedName) time.Time) (oldest time.Time) {
	for kyma, at := range counted {
		if remembered != nil {
			if newer := remembered(kyma); newer.After(at) {
				at = newer
			}
		}
		oldest = older(oldest, at)
	}
	return oldest
}

// appliedAfter returns how long it took from issuing a bundle to the report that first names it as in force; is false where a status does not say
// that of a bundle of which the one before did not say it.
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
