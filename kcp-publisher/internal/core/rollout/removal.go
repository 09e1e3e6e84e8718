package rollout

import (
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func compareRemoval(a, b Track) int {
	switch {
	case a.IsRemoval == b.IsRemoval:
		return 0
	case a.IsRemoval:
		return 1
	}
	return -1
}

// addRemoval evaluates the removal of a module from the runtimes of a channel. A removal uses the same plan as a
// promotion: it promotes fleet.VersionRemoved.
func (r *Round) addRemoval(
	track Track, policy *fleet.RolloutPolicy, rollouts []*fleet.Rollout, followers Followers, now time.Time,
) {
	newest := NewestRollout(rollouts)
	if spec := nextRemoval(policy, track, followers, newest); spec != nil {
		newest = newRollout(track, *spec, rollouts)
		rollouts = append(rollouts, newest)
	}
	switch {
	case newest == nil:
		return
	case isRemovalUnrestricted(newest, policy):
		r.recordOffer(newest, followers, now)
	case hasSucceeded(newest):
		r.addRecordedGate(r.recordOffer(newest, followers, now))
	default:
		step := Plan(newest.Name, newest.Spec, newest.Status, followers.Runtimes,
			PlanInput{ChannelVersion: followers.channelVersion(newest), Now: now, places: r.places})
		r.Gates[track] = NewGate(newest, step, followers.Runtimes)
		r.addRollout(newest, step.Status, now)
	}
	r.deleteOld(rollouts)
}

// isRemovalUnrestricted reports whether the publisher can remove a module from all runtimes at once, because no policy
// applies to new removals and the newest removal has succeeded.
func isRemovalUnrestricted(newest *fleet.Rollout, policy *fleet.RolloutPolicy) bool {
	return policy == nil && hasSucceeded(newest)
}

// channelVersion returns the version of the track's channel. If the catalog offers a removed module again, this is the
// version before the removal, as if an operator had set the channel back to it.
func (f Followers) channelVersion(newest *fleet.Rollout) string {
	if IsRemoval(newest.Spec) && f.Channel == "" {
		return newest.Spec.From
	}
	return f.Channel
}

// nextRemoval returns the Rollout to create for the removal of a module, or nil if none is needed.
func nextRemoval(
	policy *fleet.RolloutPolicy, track Track, followers Followers, newest *fleet.Rollout,
) *fleet.RolloutSpec {
	if policy == nil || followers.Channel != fleet.VersionRemoved {
		return nil
	}
	revision := int64(1)
	if newest != nil {
		if !isRepeatable(newest) && !isFollowedByRemoval(newest, followers.Runtimes) {
			return nil
		}
		revision = newest.Spec.Revision + 1
	}
	from := mostCommonInstalled(followers.Runtimes)
	if from == "" {
		return nil
	}
	course := completeCourse(policy.Spec.Course)
	for i := range course.Waves {
		course.Waves[i].Checks = nil // a removed module has no checks
	}
	return &fleet.RolloutSpec{
		Policy: policy.Name, Module: track.Module, Channel: track.Channel, Revision: revision, From: from,
		To: fleet.VersionRemoved, Course: course,
	}
}

// isFollowedByRemoval reports whether a new removal is necessary after a removal that succeeded: the catalog offered
// the module in between, or a runtime began to lose the module after the end.
func isFollowedByRemoval(ended *fleet.Rollout, runtimes []Runtime) bool {
	if ended.Status.State != fleet.RolloutSucceeded || ended.Status.FinishedAt == nil {
		return false
	}
	return ended.Status.ReleasedAt != nil || slices.ContainsFunc(runtimes, func(r Runtime) bool {
		return r.Version != fleet.VersionRemoved && r.RemovalDecidedAt.After(ended.Status.FinishedAt.Time)
	})
}

// mostCommonInstalled returns the most common version of the runtimes that still have the module, or "".
func mostCommonInstalled(runtimes []Runtime) string {
	return mostCommon(countVersions(runtimes), func(version string) bool { return version != fleet.VersionRemoved })
}

// recordOffer records the first time at which the catalog offered the module again after a successful removal.
func (r *Round) recordOffer(ended *fleet.Rollout, followers Followers, now time.Time) *fleet.Rollout {
	if followers.Channel == fleet.VersionRemoved || ended.Status.ReleasedAt != nil {
		return ended
	}
	p := newPlan(ended.Name, ended.Spec, ended.Status, PlanInput{Now: now})
	p.status.ReleasedAt = new(p.currentTime())
	return r.updateEnded(ended, p.status)
}
