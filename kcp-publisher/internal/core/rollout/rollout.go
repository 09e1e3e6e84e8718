// Package rollout decides which runtime gets a promoted version, and why the others are held. It is pure.
//
// A rollout is a promotion of one module in one channel. Plan takes its status, the facts about every runtime that
// follows the channel, and the time. It returns the next status and one Decision for each runtime. The caller writes
// the status before it acts on a decision, so that a restarted publisher makes the same decision.
//
// A runtime is updated once a signed report names exactly the bundle that was published to it, lists the module as
// ready in that version, and lists every check of its wave as Passed. A Failed check counts as a failure. A runtime
// that is silent, or that waits for its maintenance window, is deferred, which is neither success nor failure. A wave
// starts once the previous one is proven, and only such reports prove a wave.
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

// Runtime has the facts about a runtime that follows the module's channel.
type Runtime struct {
	ID string
	// Labels are the labels of its Kyma in the control plane.
	Labels map[string]string
	// LastReport is the time of its last report, zero before the first.
	LastReport time.Time
	// Unnoted is the end of the time in which another publisher may have received a report without recording it, zero
	// if no report is missing.
	Unnoted time.Time
	// Unpublishable is true if the publisher cannot publish a newer bundle to it, since UnpublishableSince at the
	// earliest.
	Unpublishable      bool
	UnpublishableSince time.Time
	// Version is the module's version in the newest bundle published to it, empty if the bundle lacks the module.
	Version string
	// Given names the rollout that gave it that version, nil if none did.
	Given *v1beta2.GivenVersion
	// Current is true if the last report names the newest bundle by its digest, was made for the same generation of the
	// runtime's Kyma, and lists the module in that version. State and Message are the module's in that report. They
	// have no meaning otherwise.
	Current bool
	State   v1beta2.State
	Message string
	// Waits is true if the runtime has the bundle and installs the version once its maintenance window opens.
	Waits bool
	// LacksChecks is true if its agent does not support checks.
	LacksChecks bool
}

// Situation has the other inputs of a plan.
type Situation struct {
	// Newer is the name of the rollout that follows this one, empty for the newest.
	Newer string
	// Channel is the channel's current version.
	Channel string
	// Proven is true if an earlier rollout of the track proved the promoted version.
	Proven bool
	Now    time.Time

	// places caches places, nil for no cache.
	places places
}

// Decision is the version of the module that a runtime may have.
type Decision struct {
	// Version is that version, empty for none yet.
	Version string
	// Undo is the version that Version may replace although it is older.
	Undo string
	// Held is the reason why it may not have the promoted version, in stable words. It is empty if the runtime may.
	Held string
	// Checks is the number of the wave whose checks the runtime gets with Version, counted from 1. With 0 the runtime
	// keeps the checks that it has for the version.
	Checks int
}

// Step is the next step of a rollout.
type Step struct {
	Status fleet.RolloutStatus
	// Decisions are in the order of the runtimes. A finished rollout has none.
	Decisions []Decision
	// Awaited marks, in the same order, the runtimes that the rollout waits for: they get a version next, or have to
	// report the result.
	Awaited []bool
}

// Finished reports whether a rollout has ended. Only undo changes it after that.
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
	// before is the state before the step.
	before fleet.RolloutState
	// downwards is true if the promoted version is older than the last good one. Runtimes with the last good one then
	// keep it.
	downwards bool
}

// Plan decides the next step of a rollout. Equal arguments give equal steps: the status is the rollout's only memory.
func Plan(
	name string, spec fleet.RolloutSpec, before fleet.RolloutStatus, runtimes []Runtime, situation Situation,
) Step {
	p := newPlan(name, spec, before, situation)
	if err := Check(spec.Course); err != nil {
		return p.stuck(runtimes, err)
	}
	p.begin(runtimes)
	p.judge(runtimes)
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

// awaited marks the runtimes that the rollout waits for.
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

// stuck holds all runtimes while the course is invalid.
func (p *plan) stuck(runtimes []Runtime, why error) Step {
	if p.active() {
		p.status.State, p.status.Message = fleet.RolloutWaiting, "spec."+why.Error()
	}
	return p.hold(runtimes)
}

// hold lets every runtime keep its version.
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

// back reports whether the rollout takes its version back, or has done so.
func (p *plan) back() bool {
	return p.status.State == fleet.RolloutRollingBack || p.status.State == fleet.RolloutRolledBack
}

// changeDirection changes the direction of the rollout if an operator requests it, and after failures. An ended rollout
// stays ended unless it is undone.
func (p *plan) changeDirection() {
	state := &p.status.State
	withdrawn := p.situation.Channel == p.spec.From && (p.active() || *state == fleet.RolloutStopped)
	switch failed := p.overBudget(); {
	case *state == fleet.RolloutSuperseded || *state == fleet.RolloutRolledBack:
	case *state == fleet.RolloutRollingBack:
		p.checkRolledBack()
	case p.situation.Newer != "":
		if p.active() {
			p.end(fleet.RolloutSuperseded, "rollout "+p.situation.Newer+" came after it")
		}
	case p.spec.Undo:
		p.goBack("it was undone")
	case withdrawn:
		p.goBack("channel " + p.spec.Channel + " has " + p.spec.From + " again")
	case !p.active():
	case p.spec.Abort:
		p.end(fleet.RolloutStopped, "it was aborted")
	case failed != "" && p.spec.OnFailure == fleet.OnFailureStop:
		p.end(fleet.RolloutStopped, failed)
	case failed != "":
		p.goBack(failed)
	}
}

// release records that the channel has another version than the one that the rollout holds.
func (p *plan) release() {
	if s := &p.status; s.ReleasedAt == nil && p.situation.Newer == "" &&
		releasable(s.State, p.spec.To, p.situation.Channel) {
		now := p.stamp()
		s.ReleasedAt = &now
	}
}

// stamp returns the time in whole seconds, as the API stores it. It rounds up, so that no soak is shorter than
// specified.
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

func (p *plan) goBack(why string) {
	now := p.stamp()
	p.status.State, p.status.Message, p.status.FinishedAt, p.status.EstimatedEnd, p.status.BackSince = fleet.RolloutRollingBack, why, nil, nil, &now
	p.checkRolledBack()
}

// checkRolledBack ends a rollback once every touched runtime reported its last good version, is silent, or is overdue.
// Overdue runtimes must not block the next promotion; they go back as soon as the publisher can publish to them.
func (p *plan) checkRolledBack() {
	for i := range p.members {
		m := &p.members[i]
		if m.touched && m.state != reverted && m.state != aside && !p.overdue(m) {
			return
		}
	}
	p.end(fleet.RolloutRolledBack, p.status.Message)
}

// overdue reports whether the deadline for a runtime's way back has passed.
func (p *plan) overdue(m *member) bool {
	since := p.status.BackSince
	return since == nil || m.wave < 0 || p.situation.Now.After(since.Add(p.spec.Waves[m.wave].Deadline.Duration))
}

// overBudget returns a message about the first wave with more failures than allowed, empty without one.
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
		p.status.State, p.status.Message = fleet.RolloutPaused, "it is paused"
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
				p.status.Message = "wave " + s.Name + ": " + w.doing(why, s.ReadyAt != nil)
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

// waits returns a message if a wave waits for an approval or a runtime, empty otherwise.
func (p *plan) waits(wave int) string {
	if slices.Contains(p.spec.ApprovedWaves, p.spec.Waves[wave].Name) {
		return ""
	}
	switch untried := p.untried(wave); {
	case p.empty(wave):
		return "selects no runtime: label runtimes, correct its selector in spec.waves, or approve it"
	case untried > 0:
		return fmt.Sprintf(
			"waits for its approval: %d runtimes have %s or a newer version already, and none shows that %s works",
			untried, p.spec.To, p.spec.To)
	case p.spec.Waves[wave].Approval && p.status.Waves[wave].StartedAt == nil:
		return "waits for its approval"
	}
	return ""
}

// untried returns the number of runtimes that should prove the promoted version and cannot: they have a newer one, or
// have it from a rollout that ended before they were ready. It is zero if a runtime proves the version, or if no
// runtime gets it next. After the last wave, new runtimes get it next.
func (p *plan) untried(number int) int {
	var all wave
	later := 0
	for i := range p.waves {
		w := &p.waves[i]
		all.total, all.fresh, all.updated = all.total+w.total, all.fresh+w.fresh, all.updated+w.updated
		all.aside, all.shows = all.aside+w.aside, all.shows+w.shows
		if i > number {
			later += w.total
		}
	}
	w := &p.waves[number]
	switch {
	case p.situation.Proven:
		return 0
	case number == len(p.waves)-1 && (all.total == all.fresh || w.total == 0) && all.shows+all.updated == 0:
		return all.aside
	case w.total == 0 && w.shows == 0 && later > 0:
		return w.aside
	}
	return 0
}
