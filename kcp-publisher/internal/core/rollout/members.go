package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// memberState is the state of a runtime in a rollout.
type memberState int

const (
	// The runtime has the promoted version or a newer one, but not because of this rollout.
	unaffected memberState = iota
	// The runtime does not have the promoted version yet.
	waiting
	// The runtime does not have the promoted version yet. It is silent, or the publisher cannot publish to it.
	silent
	// The bundle has the promoted version, but the runtime has not reported whether the module works.
	inFlight
	// The runtime does not have the promoted version yet, because its agent does not support checks.
	outdated
	// The runtime does not have the promoted version yet, because the version cannot be resolved for it.
	unresolved
	// The module is ready in the promoted version, but not all checks have passed.
	measuring
	// The runtime reported the module as ready in the promoted version, and all checks have passed.
	updated
	// The runtime reported a failure, or the module was not ready in time.
	failed
	// The bundle has the promoted version, but the runtime is silent or waits for its maintenance window.
	deferred
	// The runtime has returned to the last good version.
	reverted
)

type member struct {
	place int64
	wave  int // index of the runtime's wave, or -1
	state memberState
	// touched is true if this rollout selected the runtime's current version.
	touched bool
	granted bool
	// works is true if an unaffected runtime has the promoted version, the module is ready, and all checks of the
	// runtime's wave have passed.
	works bool
	// unsure is true if the runtime looks silent but another publisher may have received a newer report.
	unsure bool
	reason string // reason for the state failed
	// unchecked describes the checks that have not passed, or is empty.
	unchecked string
}

// classify sets the memberState of every runtime and counts the runtimes of each wave by state.
func (p *plan) classify(runtimes []Runtime) {
	for i := range runtimes {
		m := &p.members[i]
		p.classifyMember(m, &runtimes[i])
		if m.wave < 0 {
			continue
		}
		w := &p.waves[m.wave]
		if m.state == unaffected {
			w.unaffected++
			if m.works {
				w.countWorking(&runtimes[i], p.start())
			}
			continue
		}
		w.total++
		if runtimes[i].Version == "" {
			w.fresh++
		}
		switch m.state {
		case waiting:
			if !m.unsure {
				w.reachable = append(w.reachable, i)
			}
		case inFlight:
			w.inFlight++
		case outdated:
			w.outdated++
			w.unchecked = append(w.unchecked, runtimes[i].ID+" (its agent does not support checks)")
		case measuring:
			w.inFlight++
			w.measure(&runtimes[i], m, p.measured(m, &runtimes[i]))
		case updated:
			w.updated++
			if p.unread(&runtimes[i]) {
				w.unread++
			}
		case failed:
			w.failed++
			w.addFailedCheck(&runtimes[i], p.failedCheck(m, &runtimes[i]))
		case unresolved:
			w.deferred++
			w.addUnresolved(&runtimes[i])
		case silent, deferred:
			w.deferred++
		}
	}
	for i := range p.waves {
		w := &p.waves[i]
		w.budgets(p.spec.Waves[i])
		w.unmatched = w.selector != nil && w.total+w.unaffected == 0 && !w.matches(runtimes)
	}
}

// countWorking counts an unaffected runtime in which the promoted version works. The soak time starts when the runtime
// was updated or, if that time is unknown, when this rollout started.
func (w *wave) countWorking(r *Runtime, rolloutStart time.Time) {
	w.working++
	since := rolloutStart
	if r.Given != nil {
		since = r.Given.Time.Time
	}
	if since.After(w.workingSince) {
		w.workingSince = since
	}
}

// start returns the time when the rollout started. Before the first step, it returns the current time.
func (p *plan) start() time.Time {
	if p.status.StartedAt != nil {
		return p.status.StartedAt.Time
	}
	return p.situation.Now
}

// unread reports whether another publisher may have received a report of the runtime that is not in the Kyma's status
// yet. A rollout waits for such a report, but not longer than offlineAfter.
func (p *plan) unread(r *Runtime) bool {
	return r.lastReport().MayArrive(p.spec.OfflineAfter.Duration, p.situation.Now)
}

func (r *Runtime) lastReport() silence.LastReport {
	return silence.LastReport{At: r.LastReport, Possible: r.LatestUnrecorded}
}

func (p *plan) classifyMember(m *member, r *Runtime) {
	state := r.lastReport().State(p.spec.OfflineAfter.Duration, p.situation.Now)
	quiet := state == silence.Never || state == silence.Silent
	// If unsure is true, the rollout waits until this publisher has read the runtime's report.
	m.unsure = state == silence.Uncertain
	m.touched = r.Given != nil && r.Given.Rollout == p.name
	switch {
	case m.touched && r.Version == p.spec.To:
		p.classifyWithVersion(m, r, quiet)
	case m.touched && r.Version == p.spec.From && p.back():
		m.state = inFlight
		// The runtime may never have installed the promoted version, for example because it waited for its maintenance
		// window.
		if r.Current || r.Waits || quiet || p.late(m, r) {
			m.state = reverted
		}
	case r.Version == p.spec.To || p.newer(r.Version):
		m.touched, m.state = false, unaffected
		m.works = p.worksIn(m, r)
	case quiet, r.Unpublishable:
		m.touched, m.state = false, silent
	case r.Unresolved == p.spec.To:
		m.touched, m.state = false, unresolved
	case p.waitsForAgent(m, r):
		m.touched, m.state = false, outdated
	default:
		m.touched, m.state = false, waiting
	}
}

// inTrouble reports whether the runtime's last report is about the newest bundle and shows a symptom in the wave's
// failsOn.
func (p *plan) inTrouble(m *member, r *Runtime) bool {
	symptom := symptom(r.State)
	return r.Current && symptom != "" && p.failsOn(m.wave, symptom)
}

func (r *Runtime) wasReady() bool {
	return r.Given != nil && r.Given.Ready || r.Current && r.State == v1beta2.StateReady
}

// newer reports whether a version is newer than the promoted version. Most runtimes have the last good version, so its
// result is computed only once.
func (p *plan) newer(version string) bool {
	if version == p.spec.From {
		return p.downwards
	}
	return bundle.Older(p.spec.To, version)
}

func (p *plan) classifyWithVersion(m *member, r *Runtime, quiet bool) {
	switch {
	case p.inTrouble(m, r):
		m.state = failed
		m.reason = fmt.Sprintf("module is %s: %s", r.State, cmp.Or(r.Message, "no reason was reported"))
	case p.failedCheck(m, r) != nil:
		m.state, m.reason = failed, DescribeCheck(*p.failedCheck(m, r))
	case r.wasReady() && p.unpassed(m, r) == "":
		m.state = updated
	case r.wasReady() && !quiet:
		m.state, m.unchecked = measuring, p.unpassed(m, r)
	case quiet, r.Waits:
		m.state = deferred
	case r.Unpublishable && p.unpublishableTooLong(m, r):
		m.state = deferred
	case r.Unpublishable:
		// The publisher does not record the reports of a runtime to which it cannot publish.
		m.state = inFlight
	case p.failsOn(m.wave, fleet.SymptomNotReady) && p.late(m, r):
		m.state, m.reason = failed,
			fmt.Sprintf("not ready %s after the version was published: %s", p.spec.Waves[m.wave].Deadline.Duration,
				lateReason(r))
	default:
		m.state = inFlight
	}
}

func lateReason(r *Runtime) string {
	if !r.Current {
		return "the last report does not describe the published bundle"
	}
	return fmt.Sprintf("module is %s: %s", r.State, cmp.Or(r.Message, "no reason was reported"))
}

func symptom(state v1beta2.State) fleet.Symptom {
	switch state {
	case v1beta2.StateError:
		return fleet.SymptomError
	case v1beta2.StateWarning:
		return fleet.SymptomWarning
	}
	return ""
}

func (p *plan) failsOn(wave int, symptom fleet.Symptom) bool {
	return wave >= 0 && slices.Contains(p.spec.Waves[wave].FailsOn, symptom)
}

// unpublishableTooLong reports whether the publisher has been unable to publish to a runtime for longer than the
// deadline of the started wave. Such a runtime must not block the wave.
func (p *plan) unpublishableTooLong(m *member, r *Runtime) bool {
	if m.wave < 0 || p.status.Waves[m.wave].StartedAt == nil {
		return false
	}
	since := r.UnpublishableSince
	if started := p.status.Waves[m.wave].StartedAt.Time; started.After(since) {
		since = started // the problem may be older than the wave
	}
	return p.situation.Now.Sub(since) > p.spec.Waves[m.wave].Deadline.Duration
}

// late reports whether the deadline has passed and the runtime has sent a report since then. A silent runtime is never
// late.
func (p *plan) late(m *member, r *Runtime) bool {
	if m.wave < 0 {
		return false
	}
	until := r.Given.Began().Add(p.spec.Waves[m.wave].Deadline.Duration)
	return p.situation.Now.After(until) && r.LastReport.After(until)
}
