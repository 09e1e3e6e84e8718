package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// classify sets the memberState of every runtime and counts the runtimes of each wave by state.
func (p *plan) classify(runtimes []Runtime) {
	for i := range runtimes {
		m := &p.members[i]
		p.classifyMember(m, &runtimes[i])
		p.addUnreturned(m, &runtimes[i])
		if m.wave < 0 {
			continue
		}
		w := &p.waves[m.wave]
		if m.state == unaffected {
			w.unaffected++
			if m.isWorking {
				w.countWorking(&runtimes[i], p.startTime())
			}
			p.addEarlierFailure(m, &runtimes[i])
			continue
		}
		w.total++
		if runtimes[i].Version == "" {
			w.newCount++
		}
		w.countPending(m, &runtimes[i])
		switch m.state {
		case waiting:
			if !m.isUncertain && !runtimes[i].RemovalHeld {
				w.reachable = append(w.reachable, i)
			}
		case inFlight:
			w.inFlight++
		case outdated:
			w.outdated++
			w.unchecked = append(w.unchecked, runtimes[i].ID+" (its agent does not support checks)")
		case measuring:
			w.inFlight++
			w.countMeasuring(&runtimes[i], m, p.isMeasured(m, &runtimes[i]))
			if p.isReportUnread(&runtimes[i]) {
				w.unreadCount++ // minReady can let the wave continue without this runtime
			}
		case updated:
			w.updated++
			if p.isReportUnread(&runtimes[i]) {
				w.unreadCount++
			}
		case failed:
			w.failed++
			w.addFailedCheck(&runtimes[i], p.findFailedCheck(m, &runtimes[i]))
		case unresolved:
			w.deferred++
			w.addUnresolved(&runtimes[i])
		case silent, deferred:
			w.deferred++
		}
	}
	for i := range p.waves {
		p.waves[i].setBudgets(p.spec.Waves[i])
	}
	p.findSubstitutes(runtimes)
}

// countWorking counts an unaffected runtime in which the promoted version works. The soak time starts at the time of
// the runtime's update or, if that is unknown, at the start of this rollout.
func (w *wave) countWorking(r *Runtime, rolloutStart time.Time) {
	w.working++
	since := rolloutStart
	if r.Selection != nil {
		since = r.Selection.Time.Time
	}
	if since.After(w.workingSince) {
		w.workingSince = since
	}
}

func (p *plan) classifyMember(m *member, r *Runtime) {
	state := r.LastReport.State(p.spec.OfflineAfter.Duration, p.input.Now)
	m.isQuiet = state == silence.NeverReported || state == silence.Silent
	// In the state Uncertain, the rollout waits until this publisher has read the runtime's report.
	m.isUncertain = state == silence.Uncertain
	m.isSelected = p.hasSelected(r)
	switch {
	case m.isSelected && r.Version == p.spec.To:
		p.classifyWithVersion(m, r)
	case p.isRollingBack() && p.isOfPredecessor(r):
		m.state = inFlight // regardless of failures, which belong to the other rollout
	case m.isSelected && p.isRollingBack() && p.hasReturned(r):
		m.state = inFlight
		// A runtime that waits for its maintenance window never installed the promoted version, so it counts as
		// reverted.
		if r.IsCurrent || r.WaitsForWindow || m.isQuiet || p.isLate(m, r) {
			m.state = reverted
		}
	case r.Version == p.spec.To || p.isNewer(r.Version):
		m.isSelected, m.state = false, unaffected
		m.isWorking = p.worksInRuntime(m, r)
	case m.isQuiet, r.Unpublishable:
		m.isSelected, m.state = false, silent
	case r.UnresolvedVersion == p.spec.To:
		m.isSelected, m.state = false, unresolved
	case p.isWaitingForAgent(m, r):
		m.isSelected, m.state = false, outdated
	default:
		m.isSelected, m.state = false, waiting
	}
	m.mustReturn = m.isSelected || p.isOfPredecessor(r)
}

// hasSelected reports whether this rollout selected the runtime's current version.
func (p *plan) hasSelected(r *Runtime) bool {
	return r.Selection != nil && r.Selection.Rollout == p.name
}

// isOfPredecessor reports whether the runtime has the promoted version, and a predecessor of this rollout selected it.
func (p *plan) isOfPredecessor(r *Runtime) bool {
	return r.Selection != nil && r.Version == p.spec.To && slices.Contains(p.spec.Predecessors, r.Selection.Rollout)
}

// isNewer reports whether a version is newer than the promoted version. It caches the result for the last good version,
// which most runtimes have.
func (p *plan) isNewer(version string) bool {
	if version == p.spec.From {
		return p.isDowngrade
	}
	return bundle.IsOlder(p.spec.To, version)
}

func (p *plan) classifyWithVersion(m *member, r *Runtime) {
	switch reason, check := p.findFailure(m, r); {
	case reason != "":
		m.state, m.reason, m.failedCheck = failed, reason, check
	case r.wasReady() && p.unpassedMessage(m, r) == "":
		m.state = updated
	case r.wasReady() && !m.isQuiet:
		m.state, m.uncheckedMessage = measuring, p.unpassedMessage(m, r)
	case m.isQuiet, r.WaitsForWindow:
		m.state = deferred
	case r.Unpublishable && p.isUnpublishableTooLong(m, r):
		m.state = deferred
	default:
		m.state = inFlight
	}
}

// findFailure returns the reason why a runtime with the promoted version counts as failed, or "". If the reason is a
// check, it also returns the name of the check.
func (p *plan) findFailure(m *member, r *Runtime) (reason, check string) {
	// If the publisher cannot publish to a runtime, it does not record the runtime's reports.
	isNotReady := !r.wasReady() && !m.isQuiet && !r.WaitsForWindow && !r.Unpublishable
	switch outcome := p.findFailedCheck(m, r); {
	case p.hasSymptom(m, r):
		return fmt.Sprintf("module is %s: %s", r.State, cmp.Or(r.Message, "no reason was reported")), ""
	case outcome != nil:
		return DescribeCheck(*outcome), outcome.Name
	case isNotReady && p.failsOn(m.wave, fleet.SymptomNotReady) && p.isLate(m, r):
		return fmt.Sprintf("not %s %s after %s was published: %s", p.goal(), p.spec.Waves[m.wave].Deadline.Duration,
			p.published(), lateReason(r)), ""
	}
	return "", ""
}

// addEarlierFailure records the failure of a runtime that got the promoted version from another rollout, for example
// before a retry. Its failure has the same effect as in the other rollout. The agent does not repeat a failed check.
func (p *plan) addEarlierFailure(m *member, r *Runtime) {
	if r.Version != p.spec.To || p.input.IsProven || p.isAccepted(m.wave) {
		return
	}
	if reason, _ := p.findFailure(m, r); reason != "" {
		w := &p.waves[m.wave]
		w.failedEarlier = append(w.failedEarlier, r.ID+" ("+bundle.Bounded(reason, maxReasonBytes)+")")
	}
}

func lateReason(r *Runtime) string {
	if !r.IsCurrent {
		return "the last report does not describe the published bundle"
	}
	return fmt.Sprintf("module is %s: %s", r.State, cmp.Or(r.Message, "no reason was reported"))
}

// isUnpublishableTooLong reports whether the publisher has been unable to publish to a runtime for longer than the
// wave's deadline. Only the time since the start of the wave counts. Such a runtime must not block the wave.
func (p *plan) isUnpublishableTooLong(m *member, r *Runtime) bool {
	if m.wave < 0 || p.status.Waves[m.wave].StartedAt == nil {
		return false
	}
	since := r.UnpublishableSince
	if started := p.status.Waves[m.wave].StartedAt.Time; started.After(since) {
		since = started // the problem may be older than the wave
	}
	return p.input.Now.Sub(since) > p.spec.Waves[m.wave].Deadline.Duration
}

// isLate reports whether the wave's deadline has passed for a runtime and the runtime has sent a report since the
// deadline. A silent runtime is never late.
func (p *plan) isLate(m *member, r *Runtime) bool {
	if m.wave < 0 || r.Selection == nil {
		return false
	}
	until := r.Selection.Began().Add(p.spec.Waves[m.wave].Deadline.Duration)
	return p.input.Now.After(until) && r.LastReport.KnownAt.After(until)
}
