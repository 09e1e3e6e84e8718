package rollout

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func (p *plan) decide(runtimes []Runtime) []Decision {
	if p.status.State == fleet.RolloutSuperseded || p.status.State == fleet.RolloutSucceeded {
		return nil
	}
	back := p.isRollingBack()
	reasons := p.holdReasons()
	decisions := make([]Decision, len(runtimes))
	for i := range runtimes {
		r, m := &runtimes[i], &p.members[i]
		has := r.Version == p.spec.To
		switch {
		case back && m.mustReturn && has:
			decisions[i] = Decision{Version: p.spec.From, ReplacedVersion: p.spec.To, HeldReason: reasons.find(m.wave, true)}
		case has || m.isGranted:
			decisions[i] = Decision{Version: p.spec.To}
			if (m.isGranted || m.isSelected) && !r.LacksChecks {
				decisions[i].Checks = m.wave + 1 // also for a wave without checks, because an operator may have removed them
			}
		default:
			decisions[i] = Decision{Version: keptVersion(p.spec.From, p.isFromUnproven(), r.Version),
				HeldReason: reasons.find(m.wave, m.isSelected)}
			switch {
			case !p.isActive():
			case m.state == outdated:
				decisions[i].HeldReason += ": waiting for an agent that supports checks"
			case m.state == unresolved:
				decisions[i].TriedVersion = p.spec.To
			}
		}
		// Every bundle repeats the rollback until the runtime has applied it.
		if back && m.mustReturn && !has {
			decisions[i].ReplacedVersion = p.spec.To
		}
	}
	return decisions
}

// waitMessage returns a message if a wave waits for approval or is empty. Otherwise, it returns "".
func (p *plan) waitMessage(wave int) string {
	if empty := p.emptyMessage(wave); empty != "" {
		return empty
	}
	if slices.Contains(p.spec.ApprovedWaves, p.spec.Waves[wave].Name) {
		return ""
	}
	switch untried := p.countUnproven(wave); {
	case untried > 0:
		text := fmt.Sprintf("waits for its approval: %d runtimes already %s, and no report shows that %s works",
			untried, p.unaffectedState(), p.subject())
		if checks := p.waves[wave].unprovenMessage(); checks != "" {
			text += "; " + checks
		}
		return text
	case p.spec.Waves[wave].Approval && p.status.Waves[wave].StartedAt == nil:
		return "waits for its approval"
	}
	return ""
}

// countUnproven returns the number of runtimes that already have the promoted version or a newer one, if no runtime can
// prove the version before the next wave starts. It returns 0 if the version is already proven or can still be proven.
func (p *plan) countUnproven(number int) int {
	var all wave
	later := 0
	for i := range p.waves {
		w := &p.waves[i]
		all.total, all.newCount, all.updated = all.total+w.total, all.newCount+w.newCount, all.updated+w.updated
		all.unaffected, all.working = all.unaffected+w.unaffected, all.working+w.working
		if i > number {
			later += w.total
		}
	}
	w := &p.waves[number]
	switch {
	case p.input.IsProven:
		return 0
	case number == len(p.waves)-1 && (all.total == all.newCount || w.total == 0) && all.working+all.updated == 0:
		return all.unaffected
	case w.total == 0 && w.working == 0 && later > 0:
		return w.unaffected
	}
	return 0
}

// The status lists at most maxListedFailures failed runtimes. The reason for each failure has at most maxReasonBytes.
const maxListedFailures, maxReasonBytes = 10, 300

func (p *plan) countRuntimes(runtimes []Runtime) {
	s := &p.status
	failedBefore := s.Failed
	s.Total, s.Updated, s.Failed, s.Deferred, s.Reverted = 0, 0, 0, 0, 0
	current := -1
	for i := range p.waves {
		w, ws := &p.waves[i], &s.Waves[i]
		ws.Total, ws.Updated, ws.InFlight = int32(w.total), int32(w.updated), int32(w.inFlight)
		ws.Failed, ws.Deferred = int32(w.failed), int32(w.deferred)
		s.Total, s.Updated = s.Total+ws.Total, s.Updated+ws.Updated
		s.Failed, s.Deferred = s.Failed+ws.Failed, s.Deferred+ws.Deferred
		if ws.StartedAt != nil || current < 0 {
			current = i
		}
	}
	if p.isRollingBack() {
		s.Failed = max(s.Failed, failedBefore) // after a rollback, keep counting the runtimes that failed before
	}
	s.Wave = fmt.Sprintf("%d/%d %s", current+1, len(p.waves), s.Waves[current].Name)
	s.Progress = fmt.Sprintf("%d/%d", s.Updated, s.Total)
	p.recordFailures(runtimes)
	p.recordChecks(runtimes)
	p.estimateEnd(current)
}

// recordFailures writes the failed runtimes to the rollout's status. During a rollback, it keeps the failures that
// caused the rollback.
func (p *plan) recordFailures(runtimes []Runtime) {
	var failures []fleet.RuntimeFailure
	for i := range p.members {
		m := &p.members[i]
		if m.isSelected && p.hasReturned(&runtimes[i]) {
			p.status.Reverted++
		}
		if m.state == failed && len(failures) < maxListedFailures {
			failures = append(failures, fleet.RuntimeFailure{
				Runtime: runtimes[i].ID, Wave: p.spec.Waves[m.wave].Name,
				Reason: bundle.Bounded(m.reason, maxReasonBytes), Check: m.failedCheck,
			})
		}
	}
	if len(failures) > 0 || p.isActive() {
		p.status.Failures = failures
	}
}

func milestonesOf(status fleet.RolloutStatus) milestones {
	now := milestones{
		state: status.State, total: status.Total, updated: status.Updated, failed: status.Failed,
		deferred: status.Deferred,
	}
	for _, w := range status.Waves {
		if w.StartedAt != nil {
			now.startedWaves++
		}
		if w.ReadyAt != nil {
			now.readyWaves++
		}
		if w.ProvenAt != nil {
			now.provenWaves++
		}
	}
	return now
}

// estimateEnd sets the estimated end of the rollout from the average time per updated runtime and the remaining soak
// times. The estimate does not change until the rollout makes progress, so that time alone does not change the status.
// However, an estimate in the past is removed.
func (p *plan) estimateEnd(current int) {
	before := p.status.EstimatedEnd
	p.status.EstimatedEnd = nil
	started := p.status.StartedAt
	if p.status.State != fleet.RolloutProgressing || p.status.Updated == 0 || started == nil {
		return
	}
	if milestonesOf(p.status) == p.previousMilestones {
		if before != nil && before.After(p.input.Now) {
			p.status.EstimatedEnd = before
		}
		return
	}
	var soaks, soaked time.Duration
	for i := range p.status.Waves {
		soak, w := p.spec.Waves[i].Soak.Duration, &p.status.Waves[i]
		switch {
		case i > current && p.waitMessage(i) != "":
			return // no estimate, because the time of the approval is unknown
		case w.ProvenAt != nil:
			soaked += soak
		case w.ReadyAt != nil:
			spent := min(p.input.Now.Sub(w.ReadyAt.Time), soak)
			soaked, soaks = soaked+spent, soaks+soak-spent
		case w.Total > 0:
			soaks += soak
		}
	}
	work := max(p.input.Now.Sub(started.Time)-soaked, 0)
	left := time.Duration(
		float64(work) / float64(p.status.Updated) * float64(
			p.status.Total-p.status.Updated-p.status.Failed-p.status.Deferred))
	end := metav1.NewTime(p.input.Now.Add(left + soaks).Truncate(time.Minute).Add(time.Minute))
	p.status.EstimatedEnd = &end
}
