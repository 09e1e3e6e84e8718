// Package rollout decides which runtimes get a promoted version, and why other runtimes do not get it yet. It is pure.
//
// A rollout is the promotion of one module in one channel. Plan takes the rollout's status, the facts about every
// runtime that follows the channel, and the time. It returns the next status and one Decision for each runtime. The
// caller writes the status before it acts on a decision, so a restarted publisher makes the same decision.
//
// A runtime is updated once a signed report names exactly the bundle that was published to it, lists the module as
// ready in that version, and lists every check of its wave as Passed. A runtime with a Failed check has failed. A
// runtime that is silent or waits for its maintenance window is deferred, which is neither a success nor a failure. A
// wave starts when the previous wave is proven, and only reports of updated runtimes prove a wave.
package rollout

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// Runtime contains the facts about a runtime that follows the module's channel.
type Runtime struct {
	ID string
	// Labels are the labels of the runtime's Kyma in the control plane.
	Labels map[string]string
	// LastReport is the time of the runtime's last report, or zero before the first report.
	LastReport time.Time
	// LatestUnrecorded is the latest time at which another publisher can have received a report without recording it.
	// It is zero if all reports are recorded.
	LatestUnrecorded time.Time
	// Unpublishable is true if the publisher cannot publish a newer bundle to the runtime. UnpublishableSince is the
	// earliest possible time of the first failure.
	Unpublishable      bool
	UnpublishableSince time.Time
	// Unresolved is the promoted version that the publisher could not resolve for the runtime, or empty. Message then
	// contains the problem.
	Unresolved string
	// Version is the module's version in the newest published bundle. It is empty if the bundle does not contain the
	// module.
	Version string
	// Given describes the rollout that published Version, or is nil if no rollout published it.
	Given *v1beta2.GivenVersion
	// Current is true if the last report contains the digest of the newest bundle, is for the same generation of the
	// runtime's Kyma, and lists the module in Version. State and Message are the module's state and message in that
	// report. They are only valid if Current is true, except for Message with Unresolved.
	Current bool
	State   v1beta2.State
	Message string
	// Waits is true if the runtime has the bundle and waits for its maintenance window to install the version.
	Waits bool
	// LacksChecks is true if the runtime's agent does not support checks.
	LacksChecks bool
}

// Situation contains the inputs of a plan besides the rollout and its runtimes.
type Situation struct {
	// Newer is the name of the next rollout of the track. It is empty for the newest rollout.
	Newer string
	// Channel is the channel's current version.
	Channel string
	// Proven is true if an earlier rollout of the track proved the promoted version.
	Proven bool
	Now    time.Time

	// places caches the positions of runtimes in the order of waves. Nil disables the cache.
	places places
}

// Decision is the version of the module that a runtime can have.
type Decision struct {
	// Version is the allowed version. It is empty if the runtime must not get the module yet.
	Version string
	// Undo is the newer version that Version replaces in a rollback.
	Undo string
	// Held is the reason why the runtime cannot have the promoted version, or empty. The progress of a wave does not
	// change the text.
	Held string
	// Try is the promoted version if it could not be resolved for the runtime. The publisher resolves it in addition to
	// Version to find out whether the runtime can have it later. Otherwise, Try is empty.
	Try string
	// Checks is the number of the wave whose checks the runtime gets with Version, counted from 1. If it is 0, the
	// runtime keeps its current checks for the version.
	Checks int
}

// Step is the next step of a rollout.
type Step struct {
	Status fleet.RolloutStatus
	// Decisions are in the order of the runtimes. They are nil after a rollout succeeded or was superseded.
	Decisions []Decision
	// Awaited marks the runtimes for which the rollout waits, in the same order. They are about to get a version or
	// must report the result.
	Awaited []bool
}

// Finished reports whether a rollout with this state has ended. An ended rollout can only change to a rollback: after
// an undo or, if it was stopped, because the channel has the last good version again.
func Finished(state fleet.RolloutState) bool {
	switch state {
	case fleet.RolloutStopped, fleet.RolloutRolledBack, fleet.RolloutSuperseded, fleet.RolloutSucceeded:
		return true
	}
	return false
}

// plan computes one step.
type plan struct {
	name      string
	spec      fleet.RolloutSpec
	status    fleet.RolloutStatus
	situation Situation
	members   []member
	waves     []wave
	// before is the state of the rollout before the step.
	before fleet.RolloutState
	// downwards is true if the promoted version is older than the last good version. In that case, runtimes that have
	// the last good version keep it.
	downwards bool
}

// Plan decides the next step of a rollout. Equal arguments give equal steps, because all progress is recorded in the
// status.
func Plan(
	name string, spec fleet.RolloutSpec, before fleet.RolloutStatus, runtimes []Runtime, situation Situation,
) Step {
	p := newPlan(name, spec, before, situation)
	if err := Check(spec.Course); err != nil {
		return p.stuck(runtimes, err)
	}
	p.begin(runtimes)
	if err := p.checkWaves(runtimes); err != nil && p.active() {
		return p.stuck(runtimes, err)
	}
	p.classify(runtimes)
	p.changeDirection()
	p.release()
	if p.active() {
		p.advance()
	}
	p.grant(runtimes)
	p.count(runtimes)
	return Step{Status: p.status, Decisions: p.decide(runtimes), Awaited: p.awaited(runtimes)}
}

func newPlan(name string, spec fleet.RolloutSpec, before fleet.RolloutStatus, situation Situation) *plan {
	status, downwards := *before.DeepCopy(), bundle.Older(spec.To, spec.From)
	return &plan{
		name: name, spec: spec, status: status, before: status.State, situation: situation, downwards: downwards,
	}
}

// awaited marks the runtimes for which the rollout waits.
func (p *plan) awaited(runtimes []Runtime) []bool {
	all := make([]bool, len(runtimes))
	if Finished(p.status.State) {
		return all
	}
	for i := range runtimes {
		m := &p.members[i]
		all[i] = m.state == inFlight || m.state == measuring || m.granted && !m.touched ||
			p.back() && m.touched && m.state != reverted
	}
	return all
}

// stuck returns a step in which every runtime keeps its version, because the course is invalid.
func (p *plan) stuck(runtimes []Runtime, why error) Step {
	if p.active() {
		p.status.State, p.status.Message = fleet.RolloutWaiting, "spec."+why.Error()
	}
	return p.hold(runtimes)
}

// hold returns a step in which every runtime keeps its version.
func (p *plan) hold(runtimes []Runtime) Step {
	p.members = make([]member, len(runtimes))
	for i, r := range runtimes {
		p.members[i] = member{wave: -1, touched: r.Given != nil && r.Given.Rollout == p.name}
	}
	return Step{Status: p.status, Decisions: p.decide(runtimes)}
}

// active reports whether the rollout still moves forward.
func (p *plan) active() bool {
	return !Finished(p.status.State) && p.status.State != fleet.RolloutRollingBack
}

// back reports whether the rollout is rolling back or was rolled back.
func (p *plan) back() bool {
	return p.status.State == fleet.RolloutRollingBack || p.status.State == fleet.RolloutRolledBack
}

// changeDirection stops the rollout or rolls it back after failures or at the request of an operator. An ended rollout
// only changes if it is undone or its channel has the last good version again.
func (p *plan) changeDirection() {
	state := &p.status.State
	withdrawn := p.situation.Channel == p.spec.From && (p.active() || *state == fleet.RolloutStopped)
	switch failed := p.overBudget(); {
	case *state == fleet.RolloutSuperseded || *state == fleet.RolloutRolledBack:
	case *state == fleet.RolloutRollingBack:
		p.checkRolledBack()
	case p.situation.Newer != "":
		if p.active() {
			p.end(fleet.RolloutSuperseded, "rollout "+p.situation.Newer+" replaces this rollout")
		}
	case p.spec.Undo:
		p.startRollback("undone by an operator")
	case withdrawn:
		p.startRollback("channel " + p.spec.Channel + " has " + p.spec.From + " again")
	case !p.active():
	case p.spec.Abort:
		p.end(fleet.RolloutStopped, "aborted by an operator")
	case failed != "" && p.spec.OnFailure == fleet.OnFailureStop:
		p.end(fleet.RolloutStopped, failed)
	case failed != "":
		p.startRollback(failed)
	}
}

// release records the first time at which the channel has another version than the one that this rollout holds back.
func (p *plan) release() {
	if s := &p.status; s.ReleasedAt == nil && p.situation.Newer == "" &&
		releasable(s.State, p.spec.To, p.situation.Channel) {
		now := p.stamp()
		s.ReleasedAt = &now
	}
}

// stamp returns the current time in whole seconds, which is the precision of the API. It rounds up, so no soak time is
// shorter than specified.
func (p *plan) stamp() metav1.Time {
	now := p.situation.Now.UTC().Truncate(time.Second)
	if now.Before(p.situation.Now) {
		now = now.Add(time.Second)
	}
	return metav1.NewTime(now)
}

func (p *plan) end(state fleet.RolloutState, why string) {
	now := p.stamp()
	p.status.State, p.status.Message, p.status.FinishedAt, p.status.EstimatedEnd = state, why, &now, nil
}

func (p *plan) startRollback(why string) {
	now := p.stamp()
	p.status.State, p.status.Message, p.status.BackSince = fleet.RolloutRollingBack, why, &now
	p.status.FinishedAt, p.status.EstimatedEnd = nil, nil
	p.checkRolledBack()
}

// checkRolledBack ends a rollback when every runtime that got the version from this rollout has reported the last good
// version, is silent, or is overdue. Overdue runtimes must not block the next promotion. They are still rolled back as
// soon as the publisher can publish to them.
func (p *plan) checkRolledBack() {
	for i := range p.members {
		m := &p.members[i]
		if m.touched && m.state != reverted && m.state != unaffected && !p.overdue(m) {
			return
		}
	}
	p.end(fleet.RolloutRolledBack, p.status.Message)
}

// overdue reports whether the deadline for the rollback of a runtime has passed.
func (p *plan) overdue(m *member) bool {
	since := p.status.BackSince
	return since == nil || m.wave < 0 || p.situation.Now.After(since.Add(p.spec.Waves[m.wave].Deadline.Duration))
}

// overBudget returns a message about the first wave with more failures than allowed, or empty.
func (p *plan) overBudget() string {
	for i := range p.waves {
		w := &p.waves[i]
		if p.status.Waves[i].StartedAt != nil && w.failed > w.maxFailures {
			p.status.Waves[i].State = fleet.WaveFailed
			return w.failure(p.spec.Waves[i].Name)
		}
	}
	return ""
}

// advance starts and proves waves in their order.
func (p *plan) advance() {
	now := p.stamp()
	p.status.State = fleet.RolloutProgressing
	if p.spec.Paused {
		p.status.State, p.status.Message = fleet.RolloutPaused, "the rollout is paused"
	}
	for i := range p.waves {
		w, s := &p.waves[i], &p.status.Waves[i]
		if s.ProvenAt != nil {
			continue
		}
		if s.StartedAt == nil && p.spec.Paused {
			return
		}
		if waits := p.waits(i); waits != "" && !p.spec.Paused {
			s.State, p.status.State, p.status.Message = fleet.WaveWaiting, fleet.RolloutWaiting,
				"wave "+s.Name+" "+waits
			return
		}
		if s.StartedAt == nil {
			s.StartedAt = &now
		}
		why := w.unready()
		if why == "" && s.ReadyAt == nil {
			s.ReadyAt = &now
		}
		if s.State = fleet.WaveProgressing; s.ReadyAt != nil {
			s.State = fleet.WaveSoaking
		}
		soaked := s.ReadyAt != nil && !p.situation.Now.Before(p.soakedAt(i, s.ReadyAt.Time))
		why = p.missing(i, why, soaked)
		if why != "" || !soaked || p.spec.Paused {
			if !p.spec.Paused {
				p.status.Message = "wave " + s.Name + ": " + w.progressMessage(why, s.ReadyAt != nil)
			}
			return
		}
		s.ProvenAt, s.State = &now, fleet.WaveProven
	}
	p.end(fleet.RolloutSucceeded, p.success())
}

// success returns the message of a rollout whose waves are all proven.
func (p *plan) success() string {
	if slices.ContainsFunc(p.waves, func(w wave) bool { return w.total > 0 }) {
		return "every wave is proven"
	}
	return "no runtime had to be updated"
}

// waits returns a message if a wave waits for an approval or selects no runtimes, or empty.
func (p *plan) waits(wave int) string {
	if slices.Contains(p.spec.ApprovedWaves, p.spec.Waves[wave].Name) {
		return ""
	}
	switch untried := p.unprovenRuntimes(wave); {
	case p.empty(wave):
		return "selects no runtime: label runtimes, correct the selector in spec.waves, or approve the wave"
	case untried > 0:
		return fmt.Sprintf(
			"waits for its approval: %d runtimes have %s or a newer version already, and none shows that %s works",
			untried, p.spec.To, p.spec.To)
	case p.spec.Waves[wave].Approval && p.status.Waves[wave].StartedAt == nil:
		return "waits for its approval"
	}
	return ""
}

// unprovenRuntimes returns the number of runtimes in a wave that should prove the promoted version but cannot: they
// have a newer version, or got the version from a rollout that ended before they were ready. It returns zero if another
// runtime proves the version, or if no later wave would deliver the version to more runtimes. After the last wave,
// every new runtime would get the version.
func (p *plan) unprovenRuntimes(number int) int {
	var all wave
	later := 0
	for i := range p.waves {
		w := &p.waves[i]
		all.total, all.fresh, all.updated = all.total+w.total, all.fresh+w.fresh, all.updated+w.updated
		all.unaffected, all.working = all.unaffected+w.unaffected, all.working+w.working
		if i > number {
			later += w.total
		}
	}
	w := &p.waves[number]
	switch {
	case p.situation.Proven:
		return 0
	case number == len(p.waves)-1 && (all.total == all.fresh || w.total == 0) && all.working+all.updated == 0:
		return all.unaffected
	case w.total == 0 && w.working == 0 && later > 0:
		return w.unaffected
	}
	return 0
}
