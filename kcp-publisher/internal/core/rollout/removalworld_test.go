package rollout

import (
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// hideModule makes the catalog hide the module from all runtimes, so the history tests the removal of the module. A
// runtime loses the module only after the publisher's decision.
func (w *world) hideModule() {
	w.track, w.channel, w.gates = Track{Module: keda.Module, Channel: keda.Channel, IsRemoval: true},
		fleet.VersionRemoved, Gates{}
}

// followers returns the runtimes that lose or have lost the module. The catalog hides the module as long as one of them
// exists.
func (w *world) followers(facts []Runtime) Followers {
	f := Followers{Runtimes: facts}
	for _, m := range w.machines {
		if !m.decided.IsZero() || m.known.Versions[keda.Module] == fleet.VersionRemoved {
			f.Channel = fleet.VersionRemoved
		}
	}
	return f
}

func (w *world) nextRollout(newest *fleet.Rollout, facts []Runtime) *fleet.RolloutSpec {
	if w.track.IsRemoval {
		return nextRemoval(w.policy, w.track, w.followers(facts), newest)
	}
	return nextRollout(w.policy, keda, w.channel, newest, facts)
}

func (w *world) situation(newest *fleet.Rollout) PlanInput {
	if w.track.IsRemoval {
		return PlanInput{ChannelVersion: w.followers(nil).channelVersion(newest), Now: w.now}
	}
	return PlanInput{ChannelVersion: w.channel, IsProven: isProven(newest, w.rollouts), Now: w.now}
}

// isDone reports whether the newest rollout has ended and no other one follows.
func (w *world) isDone(newest *fleet.Rollout) bool {
	if !w.track.IsRemoval {
		again := newest.Spec.To == w.channel && isRepeatable(newest)
		return IsFinished(newest.Status.State) && !again &&
			(newest.Spec.To == w.channel || newest.Spec.From == w.channel)
	}
	facts := make([]Runtime, len(w.machines))
	for i, m := range w.machines {
		m.approved = true
		if w.channel == fleet.VersionRemoved && m.decided.IsZero() && m.version != fleet.VersionRemoved {
			return false
		}
		facts[i] = w.fact(m)
	}
	return IsFinished(newest.Status.State) && w.nextRollout(newest, facts) == nil &&
		(w.channel == fleet.VersionRemoved) == (w.followers(nil).Channel == fleet.VersionRemoved)
}

// publishRemoval reconciles one runtime. The runtime loses the module only after the publisher's decision, and only if
// the gate allows the removal.
func (w *world) publishRemoval(m *simulatedRuntime) {
	gate, before := w.gates[w.track], m.version
	var d Decision
	switch {
	case w.channel == "":
		m.decided, m.version, m.givenBy = time.Time{}, "1.0.0", ""
	case m.version != fleet.VersionRemoved && m.decided.IsZero():
		m.version, m.decided = "1.0.0", w.now // until the decision is recorded, the runtime keeps the module
	case gate == nil:
	default:
		switch d = gate.DecideRemoval(m.id, m.decided); {
		case d.ReplacedVersion != "" && m.version == fleet.VersionRemoved:
			if !w.mayReturn(m, gate) {
				w.fail("%s gets the module again from %s, which did not remove it", m.id, gate.rollout)
			}
			m.version, m.givenBy, m.decided = "1.0.0", gate.rollout, w.now
		case d.HeldReason == "" && m.version != fleet.VersionRemoved:
			if !m.approved && !gate.isOpen {
				w.fail("%s loses the module before its removal is approved", m.id)
			}
			if !m.approved {
				break // the publisher waits for the approval, regardless of the gate
			}
			if newest := NewestRollout(w.rollouts); newest.Name == gate.rollout &&
				newest.Status.State == fleet.RolloutSucceeded && m.decided.After(newest.Status.FinishedAt.Time) {
				w.fail("%s loses the module after %s ended, without waves", m.id, gate.rollout)
			}
			m.version, m.givenBy = fleet.VersionRemoved, gate.rollout
		}
	}
	if m.version != before {
		w.push(m)
	}
	given := m.known.Given
	if m.known.Versions[keda.Module] != m.version {
		if given = nil; m.givenBy != "" && gate != nil {
			given = map[string]v1beta2.GivenVersion{keda.Module: gate.Select(w.now)}
		}
	}
	if m.version == fleet.VersionRemoved {
		if !m.decided.IsZero() {
			m.recorded = m.decided
		}
		m.decided = time.Time{} // the bundle contains the removal
	}
	m.known = v1beta2.PublishedBundle{Versions: map[string]string{keda.Module: m.version}, Given: given}
	m.knownDigest, m.noted, m.polled = m.digest, m.lastReport, true
	w.recordReport(m)
	if slices.Contains(w.gone, m) {
		w.fail("%s left, but got a bundle", m.id)
	}
}
