// Package rollout decides which runtimes get a promoted version, and why other runtimes must wait. It does not perform
// I/O.
//
// A rollout promotes one module in one channel. Plan takes the rollout's status, the state of every runtime that
// follows the channel, and the time. It returns the next status and a Decision for each runtime. The caller writes the
// status before it uses a Decision, so a restarted publisher makes the same decisions.
//
// A runtime counts as updated if its signed report shows that it has applied the published bundle, the module is ready,
// and every check of the runtime's wave has passed. A runtime that is silent or waits for its maintenance window counts
// as deferred, not as a success or a failure. A wave starts after the updated runtimes of the previous wave have proved
// that the version works.
package rollout

import (
	"slices"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// Plan decides the next Step of a rollout. Equal arguments lead to equal results.
func Plan(
	name string, spec fleet.RolloutSpec, before fleet.RolloutStatus, runtimes []Runtime, input PlanInput,
) Step {
	p := newPlan(name, spec, before, input)
	if err := CheckCourse(spec.Course); err != nil {
		return p.invalidStep(runtimes, err)
	}
	p.assignRuntimes(runtimes)
	if p.isRemovalGrowing() {
		p.fixPlaces(runtimes)
		p.findWaves(runtimes)
	}
	if err := p.checkWaves(runtimes); err != nil && p.isActive() {
		return p.invalidStep(runtimes, err)
	}
	for i := range p.status.Waves {
		p.status.Waves[i].WaitsForDeferred = false
	}
	p.classify(runtimes)
	p.changeDirection()
	p.recordRelease()
	if p.isActive() {
		p.advanceWaves(runtimes)
	}
	p.grantSlots(runtimes)
	p.countRuntimes(runtimes)
	return p.newStep(runtimes, p.awaitedReports(runtimes))
}

func (p *plan) newStep(runtimes []Runtime, awaitsReport []bool) Step {
	return Step{
		Status: p.status, Decisions: p.decide(runtimes), AwaitsReport: awaitsReport, isFromUnproven: p.isFromUnproven(),
	}
}

func newPlan(name string, spec fleet.RolloutSpec, before fleet.RolloutStatus, input PlanInput) *plan {
	status, downwards := *before.DeepCopy(), bundle.IsOlder(spec.To, spec.From)
	return &plan{
		name: name, spec: spec, status: status, previousState: status.State, previousMilestones: milestonesOf(status),
		input: input, isDowngrade: downwards,
	}
}

func (p *plan) awaitedReports(runtimes []Runtime) []bool {
	all := make([]bool, len(runtimes))
	if IsFinished(p.status.State) {
		return all
	}
	for i := range runtimes {
		m := &p.members[i]
		all[i] = m.state == inFlight || m.state == measuring || m.isGranted && !m.isSelected ||
			p.isRollingBack() && m.mustReturn && m.state != reverted
	}
	return all
}

// invalidStep returns a Step for a rollout with an invalid course (see CheckCourse). Every runtime keeps its version.
func (p *plan) invalidStep(runtimes []Runtime, cause error) Step {
	if p.isActive() {
		p.status.State, p.status.Message = fleet.RolloutWaiting, "spec."+cause.Error()
	}
	return p.holdAll(runtimes)
}

// holdAll returns a Step that keeps the version of every runtime.
func (p *plan) holdAll(runtimes []Runtime) Step {
	p.members = make([]member, len(runtimes))
	for i, r := range runtimes {
		isSelected := p.hasSelected(&r)
		p.members[i] = member{wave: -1, isSelected: isSelected, mustReturn: isSelected || p.isOfPredecessor(&r)}
	}
	return p.newStep(runtimes, nil)
}

// changeDirection stops the rollout or rolls it back if there are too many failures, or if an operator or a newer
// rollout requires it.
func (p *plan) changeDirection() {
	state := &p.status.State
	withdrawn := p.input.ChannelVersion == p.spec.From && (p.isActive() || *state == fleet.RolloutStopped)
	switch failed := p.budgetMessage(); {
	case *state == fleet.RolloutSuperseded:
	case *state == fleet.RolloutRolledBack:
		p.describeUnreturned()
	case *state == fleet.RolloutRollingBack:
		p.checkRolledBack()
	case p.input.NewerRollout != "":
		if p.isActive() {
			p.endRollout(fleet.RolloutSuperseded, "rollout "+p.input.NewerRollout+" replaces this rollout")
		}
	case p.spec.Undo:
		p.startRollback("undone by an operator")
	case withdrawn:
		p.startRollback(p.withdrawnMessage())
	case !p.isActive():
	case p.spec.Abort:
		p.endRollout(fleet.RolloutStopped, "aborted by an operator")
	case failed != "" && p.spec.OnFailure == fleet.OnFailureStop:
		p.endRollout(fleet.RolloutStopped, failed)
	case failed != "":
		p.startRollback(failed)
	}
}

// recordRelease records the first time at which the channel no longer has the promoted version of a stopped or
// rolled-back rollout.
func (p *plan) recordRelease() {
	if s := &p.status; s.ReleasedAt == nil && p.input.NewerRollout == "" &&
		isReleasable(s.State, p.spec.To, p.input.ChannelVersion) {
		now := p.currentTime()
		s.ReleasedAt = &now
	}
}

func (p *plan) endRollout(state fleet.RolloutState, reason string) {
	now := p.currentTime()
	p.status.State, p.status.Message, p.status.FinishedAt, p.status.EstimatedEnd = state, reason, &now, nil
}

func (p *plan) startRollback(reason string) {
	now := p.currentTime()
	p.status.State, p.status.BackSince = fleet.RolloutRollingBack, &now
	p.status.Message, p.status.RollbackReason = reason, reason
	p.status.FinishedAt, p.status.EstimatedEnd = nil, nil
	p.checkRolledBack()
}

// checkRolledBack ends a rollback. Every updated runtime must have returned to the last good version, must be silent,
// or must have missed the deadline. Runtimes that missed the deadline must not block the next promotion.
func (p *plan) checkRolledBack() {
	p.describeUnreturned()
	for i := range p.members {
		m := &p.members[i]
		if m.mustReturn && m.state != reverted && !p.isOverdue(m) {
			return
		}
	}
	p.endRollout(fleet.RolloutRolledBack, p.status.Message)
}

// isOverdue reports whether a runtime has missed the deadline for returning to the last good version.
func (p *plan) isOverdue(m *member) bool {
	since := p.status.BackSince
	return since == nil || m.wave < 0 || p.input.Now.After(since.Add(p.spec.Waves[m.wave].Deadline.Duration))
}

// budgetMessage returns a message about the first wave with more failures than maxFailures, or "". A wave that has not
// started can have failures if a failed runtime got the labels of this wave.
func (p *plan) budgetMessage() string {
	for i := range p.waves {
		w := &p.waves[i]
		if w.failed > w.maxFailures {
			p.status.Waves[i].State = fleet.WaveFailed
			return w.failureMessage(p.spec.Waves[i].Name)
		}
	}
	return ""
}

func (p *plan) advanceWaves(runtimes []Runtime) {
	now := p.currentTime()
	p.status.State = fleet.RolloutProgressing
	if p.spec.Paused {
		p.status.State, p.status.Message = fleet.RolloutPaused, "the rollout is paused"
	}
	for i := range p.waves {
		w, s := &p.waves[i], &p.status.Waves[i]
		if s.ProvenAt != nil {
			continue
		}
		if s.StartedAt == nil && p.isStartHeld(runtimes, s.Name) {
			return
		}
		if waits := p.waitMessage(i); waits != "" && !p.spec.Paused {
			s.State, p.status.State, p.status.Message = fleet.WaveWaiting, fleet.RolloutWaiting,
				"wave "+s.Name+" "+waits
			return
		}
		if s.StartedAt == nil {
			s.StartedAt = &now
		}
		if s.State = fleet.WaveProgressing; s.ReadyAt != nil {
			s.State = fleet.WaveSoaking
		}
		why := p.notReadyReason(i)
		if why == "" && s.ReadyAt == nil {
			s.ReadyAt, s.State = &now, fleet.WaveSoaking
		}
		soaked := s.ReadyAt != nil && !p.input.Now.Before(p.soakEnd(i, s.ReadyAt.Time))
		why = p.unprovenReason(i, why, soaked)
		if why != "" || !soaked || p.spec.Paused {
			if !p.spec.Paused {
				p.status.Message = "wave " + s.Name + ": " + w.progressMessage(why, s.ReadyAt != nil, i == len(p.waves)-1)
			}
			return
		}
		s.ProvenAt, s.State = &now, fleet.WaveProven
	}
	if p.lacksProof() {
		if !p.spec.Paused {
			p.status.Message = "waits for a runtime that shows that " + p.subject() + " works"
		}
		return
	}
	p.endRollout(fleet.RolloutSucceeded, p.successMessage())
}

// lacksProof returns true if all waves count as proven, but no runtime has reported that the version works. This is
// possible if runtimes got the labels of an empty wave after the rollout had skipped the wave.
func (p *plan) lacksProof() bool {
	total, shown := 0, 0
	for i := range p.waves {
		w := &p.waves[i]
		total, shown = total+w.total, shown+w.updated+w.working
	}
	return total > 0 && shown == 0 && !p.input.IsProven && len(p.spec.ApprovedWaves) == 0
}

func (p *plan) successMessage() string {
	if slices.ContainsFunc(p.waves, func(w wave) bool { return w.total > 0 }) {
		return "every wave is proven"
	}
	return "no runtime had to be updated"
}
