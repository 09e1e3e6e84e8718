package rollout

import (
	"cmp"
	"fmt"
	"slices"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// memberState is the state of a runtime in a rollout.
type memberState int

const (
	aside     memberState = iota // has the promoted version or a newer one, and not from this rollout, which ignores it
	waiting                      // does not have the version yet
	silent                       // does not have the version yet, and does not report or cannot be published to
	inFlight                     // has it and has not reported the result
	outdated                     // does not have the version yet, and its agent does not support the wave's checks
	measuring                    // is ready with it, and not all checks are Passed
	updated                      // reported that it is ready with exactly the bundle that it was given
	failed                       // reported a failure, or reports and is not ready after the deadline
	deferred                     // has it and does not report, or waits for its maintenance window
	reverted                     // has its last good version back
)

// member is a runtime in a plan.
type member struct {
	place int64
	wave  int // -1 for none
	state memberState
	// touched is true if this rollout gave the runtime its version: the promoted one or, on the way back, the last good
	// one.
	touched bool
	granted bool
	// shows is true for a runtime aside that proves the promoted version: it has it, and was ready if a rollout gave
	// it.
	shows bool
	// unsure is true if the runtime looks silent, but another publisher may have received a report.
	unsure bool
	reason string // why it failed
	// unchecked is the reason why its checks are not Passed, empty if they are or none is required.
	unchecked string
}

// judge finds the standing of every runtime and counts the runtimes of each wave.
func (p *plan) judge(runtimes []Runtime) {
	for i := range runtimes {
		m := &p.members[i]
		p.judgeMember(m, &runtimes[i])
		if m.wave < 0 {
			continue
		}
		w := &p.waves[m.wave]
		if m.state == aside {
			w.aside++
			if m.shows {
				w.show(&runtimes[i])
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
			w.breaks(&runtimes[i], p.failedCheck(m, &runtimes[i]))
		case silent, deferred:
			w.deferred++
		}
	}
	for i := range p.waves {
		w := &p.waves[i]
		w.budgets(p.spec.Waves[i])
		w.unmatched = w.selector != nil && w.total+w.aside == 0 && !w.matches(runtimes)
	}
}

// show counts a runtime that had the promoted version before and proves it.
func (w *wave) show(r *Runtime) {
	w.shows++
	if r.Given != nil && r.Given.Time.After(w.shownSince) {
		w.shownSince = r.Given.Time.Time
	}
}

// unread reports whether a report of a runtime may have arrived that was not recorded. A rollout waits for it no
// longer than for a silent runtime.
func (p *plan) unread(r *Runtime) bool {
	return r.lastReport().MayArrive(p.spec.OfflineAfter.Duration, p.situation.Now)
}

func (r *Runtime) lastReport() silence.LastReport {
	return silence.LastReport{At: r.LastReport, Possible: r.Unnoted}
}

func (p *plan) judgeMember(m *member, r *Runtime) {
	state := r.lastReport().State(p.spec.OfflineAfter.Duration, p.situation.Now)
	quiet := state == silence.Never || state == silence.Silent
	// A rollout waits for a runtime whose report may exist, and gives it no version.
	m.unsure = state == silence.Uncertain
	m.touched = r.Given != nil && r.Given.Rollout == p.name
	switch {
	case m.touched && r.Version == p.spec.To:
		p.standWithVersion(m, r, quiet)
	case m.touched && r.Version == p.spec.From && p.back():
		m.state = inFlight
		// A runtime that waits for a window never had the version, and its bundle no longer contains it.
		if r.Current || r.Waits || quiet || p.late(m, r) {
			m.state = reverted
		}
	case r.Version == p.spec.To || p.newer(r.Version):
		m.touched, m.state = false, aside
		m.shows = p.shows(m, r)
	case quiet, r.Unpublishable:
		m.touched, m.state = false, silent
	case p.waitsForAgent(m, r):
		m.touched, m.state = false, outdated
	default:
		m.touched, m.state = false, waiting
	}
}

// inTrouble reports whether a runtime's report about its newest bundle is a failure in its wave.
func (p *plan) inTrouble(m *member, r *Runtime) bool {
	symptom := symptom(r.State)
	return r.Current && symptom != "" && p.failsOn(m.wave, symptom)
}

// wasReady reports whether a runtime was ready with its version. A version that no rollout gave counts as ready.
func (r *Runtime) wasReady() bool {
	return r.Given == nil || r.Given.Ready || r.Current && r.State == v1beta2.StateReady
}

// newer reports whether a version is newer than the promoted one. The last good version, which most runtimes have, was
// compared before.
func (p *plan) newer(version string) bool {
	if version == p.spec.From {
		return p.downwards
	}
	return bundle.Older(p.spec.To, version)
}

// standWithVersion judges a runtime that this rollout gave the version.
func (p *plan) standWithVersion(m *member, r *Runtime, quiet bool) {
	switch {
	case p.inTrouble(m, r):
		m.state, m.reason = failed, fmt.Sprintf("it is %s: %s", r.State, cmp.Or(r.Message, "no reason was reported"))
	case p.failedCheck(m, r) != nil:
		m.state, m.reason = failed, Explain(*p.failedCheck(m, r))
	case r.wasReady() && p.unpassed(m, r) == "":
		m.state = updated
	case r.wasReady() && !quiet:
		m.state, m.unchecked = measuring, p.unpassed(m, r)
	case quiet, r.Waits:
		m.state = deferred
	case r.Unpublishable:
		m.state = inFlight // its reports are not recorded until then
	case p.failsOn(m.wave, fleet.SymptomNotReady) && p.late(m, r):
		m.state, m.reason = failed,
			fmt.Sprintf("it is not ready %s after it was given the version: %s", p.spec.Waves[m.wave].Deadline.Duration,
				lateReason(r))
	default:
		m.state = inFlight
	}
}

func lateReason(r *Runtime) string {
	if !r.Current {
		return "it reports another bundle than it was given"
	}
	return fmt.Sprintf("it is %s: %s", r.State, cmp.Or(r.Message, "no reason was reported"))
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

// late reports whether a runtime's deadline has passed and it has reported since. Silence is not a failure.
func (p *plan) late(m *member, r *Runtime) bool {
	if m.wave < 0 {
		return false
	}
	until := r.Given.Time.Add(p.spec.Waves[m.wave].Deadline.Duration)
	return p.situation.Now.After(until) && r.LastReport.After(until)
}
