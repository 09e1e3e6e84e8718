package rollout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// EvaluateAll decides the next step of all Rollouts. If followers does not contain a track, the Rollouts of this track
// do not change.
func EvaluateAll(
	policies []fleet.RolloutPolicy, rollouts []fleet.Rollout, followers map[Track]Followers, now time.Time,
) Round {
	byTrack := groupByTrack(rollouts)
	tracks := map[Track]bool{}
	for track := range byTrack {
		tracks[track] = true
	}
	for track := range followers {
		tracks[track] = true
	}
	round := Round{Gates: Gates{}, places: placeCache{}}
	for _, track := range slices.SortedFunc(maps.Keys(tracks), func(a, b Track) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Channel, b.Channel), compareRemoval(a, b))
	}) {
		seen, followed := followers[track]
		round.addTrack(track, FindPolicy(policies, track), byTrack[track], seen, followed, now)
	}
	return round
}

func (r *Round) addTrack(
	track Track, policy *fleet.RolloutPolicy, rollouts []*fleet.Rollout, followers Followers, isFollowed bool,
	now time.Time,
) {
	if track.IsRemoval {
		r.addRemoval(track, policy, rollouts, followers, now)
		return
	}
	newest := NewestRollout(rollouts)
	if !isFollowed {
		if newest != nil {
			r.addRecordedGate(newest)
		}
		return
	}
	if newest != nil && needsNoRollout(newest, followers.Channel, policy) {
		r.recordAllowedVersion(newest, followers.Channel, now)
		return
	}
	if policy == nil && newest != nil {
		// The policy was deleted. An active Rollout and the next promotion use the course of the newest Rollout
		// instead.
		policy = &fleet.RolloutPolicy{Spec: fleet.RolloutPolicySpec{Course: newest.Spec.Course}}
		policy.Name = newest.Spec.Policy
	}
	if policy == nil {
		return
	}
	if spec := nextRollout(policy, track, followers.Channel, newest, followers.Runtimes); spec != nil {
		newest = newRollout(track, *spec, rollouts)
		rollouts = append(rollouts, newest)
	}
	if newest == nil {
		return
	}
	if hasSucceeded(newest) {
		// The newest Rollout succeeded, so runtimes that were offline can be updated immediately.
		r.addRecordedGate(r.recordSuccess(newest, followers.Runtimes, now))
		r.deleteOld(rollouts)
		return
	}
	situation := PlanInput{ChannelVersion: followers.Channel, IsProven: isProven(newest, rollouts),
		Now: now, places: r.places}
	step := Plan(newest.Name, newest.Spec, newest.Status, followers.Runtimes, situation)
	r.Gates[track] = NewGate(newest, step, followers.Runtimes)
	r.addRollout(newest, step.Status, now)
	for _, old := range rollouts {
		if old != newest && !IsFinished(old.Status.State) {
			situation := PlanInput{ChannelVersion: followers.Channel, NewerRollout: newest.Name, Now: now, places: r.places}
			r.addRollout(old, Plan(old.Name, old.Spec, old.Status, followers.Runtimes, situation).Status, now)
		}
	}
	r.deleteOld(rollouts)
}
