package rollout

import (
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// RecordedGates returns the decisions that follow from the Rollouts' current statuses. The Round that wrote these
// statuses made the same decisions. followers can contain only some of the runtimes, such as the runtimes of one shard.
func RecordedGates(
	policies []fleet.RolloutPolicy, rollouts []fleet.Rollout, followers map[Track]Followers, now time.Time,
) Gates {
	gates, known := Gates{}, placeCache{}
	for track, own := range groupByTrack(rollouts) {
		newest := NewestRollout(own)
		seen, followed := followers[track]
		switch {
		case track.IsRemoval && isRemovalUnrestricted(newest, FindPolicy(policies, track)):
			// Without a Gate, the publisher can remove the module from every runtime.
		case !track.IsRemoval && followed && needsNoRollout(newest, seen.Channel, FindPolicy(policies, track)):
			// Without a Gate, every runtime can have the channel's version.
		case !followed, newest.Status.State == fleet.RolloutSucceeded:
			gates[track] = newRecordedGate(newest)
		default:
			gates[track] = NewGate(newest,
				recordedStep(newest, seen.Runtimes,
					PlanInput{ChannelVersion: seen.channelVersion(newest), Now: now, places: known}),
				seen.Runtimes)
		}
	}
	return gates
}

// recordedStep returns the decisions that follow from a Rollout's current status. Unlike Plan, it does not compute a
// next status.
func recordedStep(rollout *fleet.Rollout, runtimes []Runtime, input PlanInput) Step {
	p := newPlan(rollout.Name, rollout.Spec, rollout.Status, input)
	if CheckCourse(p.spec.Course) != nil || len(p.status.Waves) != len(p.spec.Waves) {
		return p.holdAll(runtimes) // the Rollout has not started or its course is invalid
	}
	p.assignRuntimes(runtimes)
	p.classify(runtimes)
	for i := range p.waves {
		p.grantRecorded(i, runtimes)
	}
	return p.newStep(runtimes, p.awaitedReports(runtimes))
}

// grantRecorded selects the runtimes to update. It selects the runtimes in the wave's status or, if the wave has no
// maxConcurrent, all reachable runtimes of the wave.
func (p *plan) grantRecorded(number int, runtimes []Runtime) {
	wave := &p.status.Waves[number]
	if !p.isActive() || wave.StartedAt == nil {
		return
	}
	if p.spec.Waves[number].MaxConcurrent == nil {
		for _, r := range p.waves[number].reachable {
			p.members[r].isGranted = p.hasOpenSlots(int(p.status.Updated))
		}
		return
	}
	for r := range p.members {
		m := &p.members[r]
		m.isGranted = m.isGranted || m.wave == number && (m.state == waiting || m.state == silent) &&
			slices.Contains(wave.Granted, runtimes[r].ID)
	}
}
