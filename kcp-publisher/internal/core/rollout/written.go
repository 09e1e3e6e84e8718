package rollout

import (
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// NewestOfAll returns the newest Rollout of each track. It ignores Rollouts that are being deleted.
func NewestOfAll(rollouts []fleet.Rollout) (newest []*fleet.Rollout) {
	for _, own := range tracked(rollouts) {
		newest = append(newest, Newest(own))
	}
	return newest
}

// Written returns the decisions that follow from the current status of the Rollouts. They are the same as those of the
// Round that wrote the Rollouts. followers can contain only some of the runtimes, such as the runtimes of one shard.
func Written(
	policies []fleet.RolloutPolicy, rollouts []fleet.Rollout, followers map[Track]Followers, now time.Time,
) Gates {
	gates, known := Gates{}, places{}
	for track, own := range tracked(rollouts) {
		newest := Newest(own)
		seen, followed := followers[track]
		switch {
		case followed && needsNoRollout(newest, seen.Channel, Covering(policies, track)):
			// Without a Gate, every runtime can have the channel's version.
		case !followed, newest.Status.State == fleet.RolloutSucceeded:
			gates[track] = NewGate(newest, Step{Status: newest.Status}, nil)
		default:
			gates[track] = NewGate(newest,
				recordedStep(newest, seen.Runtimes, Situation{Channel: seen.Channel, Now: now, places: known}),
				seen.Runtimes)
		}
	}
	return gates
}

// recordedStep returns the decisions that follow from a Rollout's current status. Unlike Plan, it does not compute a
// next status.
func recordedStep(rollout *fleet.Rollout, runtimes []Runtime, situation Situation) Step {
	p := newPlan(rollout.Name, rollout.Spec, rollout.Status, situation)
	if Check(p.spec.Course) != nil || len(p.status.Waves) != len(p.spec.Waves) {
		return p.hold(runtimes) // the Rollout has not started or its course is invalid
	}
	p.begin(runtimes)
	p.classify(runtimes)
	for i := range p.waves {
		p.grantRecorded(i, runtimes)
	}
	return Step{Status: p.status, Decisions: p.decide(runtimes), Awaited: p.awaited(runtimes)}
}

// grantRecorded selects the runtimes to update. These are the runtimes in the wave's status or, if the wave has no
// maxConcurrent, all reachable runtimes of the wave.
func (p *plan) grantRecorded(number int, runtimes []Runtime) {
	wave := &p.status.Waves[number]
	if !p.active() || wave.StartedAt == nil {
		return
	}
	if p.spec.Waves[number].MaxConcurrent == nil {
		for _, r := range p.waves[number].reachable {
			p.members[r].granted = p.open(int(p.status.Updated))
		}
		return
	}
	for r := range p.members {
		m := &p.members[r]
		m.granted = m.granted || m.wave == number && (m.state == waiting || m.state == silent) &&
			slices.Contains(wave.Granted, runtimes[r].ID)
	}
}
