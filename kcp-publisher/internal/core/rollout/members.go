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
	unaffected memberState = iota // the runtime has the promoted or a newer version, but not from this rollout
	waiting                       // the runtime does not have the version yet
	silent                        // the runtime does not have the version yet, and is silent or cannot get a bundle
	inFlight                      // the runtime has the version and has not reported whether it works
	outdated                      // the runtime does not have the version yet, and its agent does not support checks
	unresolved                    // the runtime does not have the version yet, and the version cannot be resolved for it
	measuring                     // the module is ready in the version, but not all checks are Passed
	updated                       // the runtime reported the module as ready with exactly the published bundle
	failed                        // the runtime reported a failure, or that the module is not ready after the deadline
	deferred                      // the runtime has the version and is silent, or waits for its maintenance window
	reverted                      // the runtime has returned to the last good version
)

type member struct {
	place int64
	wave  int // index of the wave, or -1
	state memberState
	// touched is true if the runtime got its version from this rollout.
	touched bool
	granted bool
	// works is true if an unaffected runtime has the promoted version and is ready, and all checks of its wave have
	// passed.
	works bool
	// unsure is true if the runtime looks silent, but another publisher may have received a report.
	unsure bool
	reason string // reason of a failure
	// unchecked describes the checks that did not pass, or is empty.
	unchecked string
}

// classify sets the state of every runtime and counts the runtimes of each wave.
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

// countWorking counts an unaffected runtime in which the promoted version works. If its update time is unknown, the
// soak time begins at the start of this rollout.
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

// start returns the time when the rollout started, or now before the first step.
func (p *plan) start() time.Time {
	if p.status.StartedAt != nil {
		return p.status.StartedAt.Time
	}
	return p.situation.Now
}

// unread reports whether another publisher may have received an unrecorded report of the runtime. A rollout waits for
// such a report, but not longer than offlineAfter.
func (p *plan) unread(r *Runtime) bool {
	return r.lastReport().MayArrive(p.spec.OfflineAfter.Duration, p.situation.Now)
}

func (r *Runtime) lastReport() silence.LastReport {
	return silence.LastReport{At: r.LastReport, Possible: r.LatestUnrecorded}
}

func (p *plan) classifyMember(m *member, r *Runtime) {
	state := r.lastReport().State(p.spec.OfflineAfter.Duration, p.situation.Now)
	quiet := state == silence.Never || state == silence.Silent
	// The rollout waits until this publisher has read the report.
	m.unsure = state == silence.Uncertain
	m.touched = r.Given != nil && r.Given.Rollout == p.name
	switch {
	case m.touched && r.Version == p.spec.To:
		p.classifyWithVersion(m, r, quiet)
	case m.touched && r.Version == p.spec.From && p.back():
		m.state = inFlight
		// The runtime waited for its maintenance window and never installed the promoted version.
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

// inTrouble reports whether the runtime's last report is a failure according to the wave's failsOn.
func (p *plan) inTrouble(m *member, r *Runtime) bool {
	symptom := symptom(r.State)
	return r.Current && symptom != "" && p.failsOn(m.wave, symptom)
}

func (r *Runtime) wasReady() bool {
	return r.Given != nil && r.Given.Ready || r.Current && r.State == v1beta2.StateReady
}

// Most runtimes have the last good version, so its result is precomputed.
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
		m.state = inFlight // the publisher records no reports of a runtime to which it cannot publish
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

// unpublishableTooLong reports whether the publisher could not publish to a runtime of a started wave for longer than
// the wave's deadline. Such a runtime must not stop the wave.
func (p *plan) unpublishableTooLong(m *member, r *Runtime) bool {
	if m.wave < 0 || p.status.Waves[m.wave].StartedAt == nil {
		return false
	}
	since := r.UnpublishableSince
	if started := p.status.Waves[m.wave].StartedAt.Time; started.After(since) {
		since = started // the problem may have started before the wave
	}
	return p.situation.Now.Sub(since) > p.spec.Waves[m.wave].Deadline.Duration
}

// late reports whether the runtime has reported after its deadline. A silent runtime is not late.
func (p *plan) late(m *member, r *Runtime) bool {
	if m.wave < 0 {
		return false
	}
	until := r.Given.Began().Add(p.spec.Waves[m.wave].Deadline.Duration)
	return p.situation.Now.After(until) && r.LastReport.After(until)
}
