// Package rollout decides which runtime may have a promoted version, and why the others are held. It is pure.
//
// A rollout is a promotion of one module in one channel. Plan takes it as it stands, what is known of every runtime
// that follows the channel, and the time; out come how it stands now and one Decision for each runtime. Whoever carries
// decisions out writes the status first: a decision that is acted upon is one that a restart makes again.
//
// What is believed: a runtime is updated once a signed report names exactly the bundle that was published to it and
// says that the module is ready in that version. A runtime that is silent, or that waits for its maintenance window, is
// deferred, which is neither success nor failure. No wave starts before the one before it is proven, and nothing but
// such reports proves it.
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

// Runtime is what is known of a runtime that follows the module's channel.
type Runtime struct {
	ID string
	// Labels are those of its Kyma in the control plane.
	Labels map[string]string
	// Heard is the time of its last report, zero before the first.
	Heard time.Time
	// Unnoted is until when it may have been heard by a publisher that did not note it, zero where that is not so.
	Unnoted time.Time
	// Unpublishable says that a newer bundle cannot be published to it, UnpublishableSince since when at most.
	Unpublishable      bool
	UnpublishableSince time.Time
	// Version is the module's in the newest bundle published to it, empty when the bundle does not have the module.
	Version string
	// Given says which rollout gave it that version, nil when none did.
	Given *v1beta2.GivenVersion
	// Current says that the last report names the newest bundle by its digest, was made for the same generation of the
	// runtime's Kyma, and tells of the module in that version. State and Message are the module's in it; they mean nothing
	// without it.
	Current bool
	State   v1beta2.State
	Message string
	// Waits says that the runtime has the bundle and installs the version once its maintenance window opens.
	Waits bool
}

// Situation is what else a plan depends on.
type Situation struct {
	// Newer is the name of the rollout that came after this one, empty for the newest.
	Newer string
	// Channel is the version that the channel has now.
	Channel string
	// Proven says that an earlier rollout of the track has shown that the promoted version works.
	Proven bool
	Now    time.Time

	// places are those that were computed before, nil for none.
	places places
}

// Decision is which version of the module a runtime may have.
type Decision struct {
	// Version is the one it may have, empty for none yet.
	Version string
	// Undo is the version that Version may replace although it is older.
	Undo string
	// Held says in a few stable words why it may not have the promoted one, empty when it may.
	Held string
}

// Step is what a rollout does next.
type Step struct {
	Status fleet.RolloutStatus
	// Decisions are in the order of the runtimes. A finished rollout has none.
	Decisions []Decision
	// Awaited says, in the same order, which runtimes the rollout waits for: they are to get a version, or to say how it
	// went.
	Awaited []bool
}

// Finished reports whether a rollout does nothing more unless it is undone.
func Finished(state fleet.RolloutState) bool {
	switch state {
	case fleet.RolloutStopped, fleet.RolloutRolledBack, fleet.RolloutSuperseded, fleet.RolloutSucceeded:
		return true
	}
	return false
}

// plan is one step in the making.
type plan struct {
	name      string
	spec      fleet.RolloutSpec
	status    fleet.RolloutStatus
	situation Situation
	members   []member
	waves     []wave
	// downwards says that the promoted version is older than the last good one: nobody who has that is given it.
	downwards bool
}

// Plan decides the next step of a rollout. Equal arguments give equal steps, and its own status is all it remembers.
func Plan(name string, spec fleet.RolloutSpec, before fleet.RolloutStatus, runtimes []Runtime, situation Situation) Step {
	p := newPlan(name, spec, before, situation)
	if err := Check(spec.Course); err != nil {
		return p.stuck(runtimes, err)
	}
	p.begin(runtimes)
	p.judge(runtimes)
	p.steer()
	p.release()
	if p.active() {
		p.advance()
	}
	p.grant(runtimes)
	p.count(runtimes)
	return Step{Status: p.status, Decisions: p.decide(runtimes), Awaited: p.awaited(runtimes)}
}

func newPlan(name string, spec fleet.RolloutSpec, before fleet.RolloutStatus, situation Situation) *plan {
	return &plan{name: name, spec: spec, status: *before.DeepCopy(), situation: situation, downwards: bundle.Older(spec.To, spec.From)}
}

// awaited returns which runtimes the rollout waits for.
func (p *plan) awaited(runtimes []Runtime) []bool {
	all := make([]bool, len(runtimes))
	if Finished(p.status.State) {
		return all
	}
	for i := range runtimes {
		m := &p.members[i]
		all[i] = m.standing == inFlight || m.granted && !m.touched || p.back() && m.touched && m.standing != reverted
	}
	return all
}

// stuck holds everything where it is while the course cannot be read.
func (p *plan) stuck(runtimes []Runtime, why error) Step {
	if p.active() {
		p.status.State, p.status.Message = fleet.RolloutWaiting, "spec."+why.Error()
	}
	return p.hold(runtimes)
}

// hold leaves every runtime what it has.
func (p *plan) hold(runtimes []Runtime) Step {
	p.members = make([]member, len(runtimes))
	for i, r := range runtimes {
		p.members[i] = member{wave: -1, touched: r.Given != nil && r.Given.Rollout == p.name}
	}
	return Step{Status: p.status, Decisions: p.decide(runtimes)}
}

// active reports whether the rollout is still on its way forward.
func (p *plan) active() bool {
	return !Finished(p.status.State) && p.status.State != fleet.RolloutRollingBack
}

// back reports whether the rollout gives last good versions back, or has.
func (p *plan) back() bool {
	return p.status.State == fleet.RolloutRollingBack || p.status.State == fleet.RolloutRolledBack
}

// steer lets what users ask for and what went wrong change the direction. What has ended stays ended, unless it is
// undone.
func (p *plan) steer() {
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
	if s := &p.status; s.ReleasedAt == nil && p.situation.Newer == "" && releasable(s.State, p.spec.To, p.situation.Channel) {
		now := p.stamp()
		s.ReleasedAt = &now
	}
}

// stamp is now as the API keeps it, in whole seconds; never earlier, so that no soak is shorter than it was asked for.
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

// checkRolledBack ends a rollback once every runtime that was touched has its last good version and said so, is silent,
// or had as long as it may take. Whom it could not be given to by then is not waited for, or no promotion could ever
// follow; they go back as soon as it can be given.
func (p *plan) checkRolledBack() {
	for i := range p.members {
		m := &p.members[i]
		if m.touched && m.standing != reverted && m.standing != aside && !p.overdue(m) {
			return
		}
	}
	p.end(fleet.RolloutRolledBack, p.status.Message)
}

// overdue reports whether a runtime should have been given its last good version long ago.
func (p *plan) overdue(m *member) bool {
	since := p.status.BackSince
	return since == nil || m.wave < 0 || p.situation.Now.After(since.Add(p.spec.Waves[m.wave].Deadline.Duration))
}

// overBudget says which wave has more failures than it may have, if one has.
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

// advance starts waves and finds them proven, in their order.
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
			s.State, p.status.State, p.status.Message = fleet.WaveWaiting, fleet.RolloutWaiting, "wave "+s.Name+" "+waits
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
		if why == "" && soaked {
			why = w.unseen()
		}
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

// success says what a rollout came to of which every wave is proven.
func (p *plan) success() string {
	if slices.ContainsFunc(p.waves, func(w wave) bool { return w.total > 0 }) {
		return "every wave is proven"
	}
	return "no runtime had to be updated"
}

// waits says how a wave waits for its approval, empty where it does not.
func (p *plan) waits(wave int) string {
	if slices.Contains(p.spec.ApprovedWaves, p.spec.Waves[wave].Name) {
		return ""
	}
	switch untried := p.untried(wave); {
	case p.empty(wave):
		return "selects no runtime: label runtimes, correct its selector in spec.waves, or approve it"
	case untried > 0:
		return fmt.Sprintf("waits for its approval: %d runtimes have %s or a newer version already, and none shows that %s works", untried, p.spec.To, p.spec.To)
	case p.spec.Waves[wave].Approval && p.status.Waves[wave].StartedAt == nil:
		return "waits for its approval"
	}
	return ""
}

// untried returns how many runtimes show nothing of the promoted version where others would get it next, zero where one
// shows it: they have a newer one, or have it from a rollout that ended before they were ready. The others are those of
// later waves or, after the last wave, new runtimes.
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
