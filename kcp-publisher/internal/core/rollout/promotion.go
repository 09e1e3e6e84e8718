package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// Covering returns the policy of a track, nil for none. Of several policies, the first by name applies.
func Covering(policies []fleet.RolloutPolicy, track Track) *fleet.RolloutPolicy {
	var first *fleet.RolloutPolicy
	for i := range policies {
		p := &policies[i]
		covers := (len(p.Spec.Modules) == 0 || slices.Contains(p.Spec.Modules, track.Module)) &&
			(len(p.Spec.Channels) == 0 || slices.Contains(p.Spec.Channels, track.Channel))
		if covers && p.DeletionTimestamp.IsZero() && (first == nil || p.Name < first.Name) {
			first = p
		}
	}
	return first
}

// Newest returns the newest of one track's rollouts, nil for none.
func Newest(rollouts []*fleet.Rollout) *fleet.Rollout {
	if len(rollouts) == 0 {
		return nil
	}
	return slices.MaxFunc(rollouts, func(a, b *fleet.Rollout) int {
		return cmp.Compare(a.Spec.Revision, b.Spec.Revision)
	})
}

// Newer returns the name of the newest rollout of the track, empty if it is this one. Only the newest can be undone.
func Newer(than *fleet.Rollout, all []fleet.Rollout) string {
	newest := than
	for i := range all {
		r := &all[i]
		if r.Spec.Module == than.Spec.Module && r.Spec.Channel == than.Spec.Channel &&
			r.Spec.Revision > newest.Spec.Revision {
			newest = r
		}
	}
	if newest == than {
		return ""
	}
	return newest.Name
}

// Name returns the name of a track's rollout with a revision. Channel names have no dash, so the name is unambiguous.
func Name(track Track, revision int64) string {
	const maxModule = 180 // a name has at most 253 bytes
	module := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(track.Module))
	return fmt.Sprintf("%.*s-%s-%d", maxModule, module, track.Channel, revision)
}

// Next returns the rollout that the publisher must create for the channel's version, nil if the newest rollout covers
// it. runtimes are the runtimes that follow the track.
func Next(
	policy *fleet.RolloutPolicy, track Track, version string, newest *fleet.Rollout, runtimes []Runtime,
) *fleet.RolloutSpec {
	from, revision := "", int64(1)
	if newest == nil {
		from = mostCommon(version, runtimes)
	} else {
		if newest.Status.State == fleet.RolloutRollingBack {
			return nil // the runtimes that it touched go back first
		}
		if newest.Spec.To == version && !repeatable(newest) {
			return nil
		}
		from, revision = lastGood(newest), newest.Spec.Revision+1
	}
	if from == "" || from == version {
		return nil
	}
	return &fleet.RolloutSpec{
		Policy: policy.Name, Module: track.Module, Channel: track.Channel, Revision: revision, From: from, To: version,
		Course: Complete(policy.Spec.Course),
	}
}

// repeatable reports whether another rollout of the same version may follow: an operator asked for it, or the channel
// had another version since this one ended.
func repeatable(ended *fleet.Rollout) bool {
	state := ended.Status.State
	return (state == fleet.RolloutStopped || state == fleet.RolloutRolledBack) &&
		(ended.Spec.Retry || ended.Status.ReleasedAt != nil)
}

// releasable reports whether a rollout holds a version that its channel does not have.
func releasable(state fleet.RolloutState, held, channel string) bool {
	ended := state == fleet.RolloutStopped || state == fleet.RolloutRollingBack || state == fleet.RolloutRolledBack
	return ended && channel != held
}

// lastGood returns the version that runtimes go back to if the promotion after this one fails: the one that they were
// given without a policy since, or this one's if it brought it to every runtime, even if its last wave still soaks.
func lastGood(before *fleet.Rollout) string {
	if before.Status.VersionWithoutPolicy != "" {
		return before.Status.VersionWithoutPolicy
	}
	if state := before.Status.State; state == fleet.RolloutSucceeded || !Finished(state) && everywhere(before.Status) {
		return before.Spec.To
	}
	return before.Spec.From
}

// leftBehind reports whether all runtimes may have their channel's version, because the newest rollout of the track
// ended with another version and no policy required waves since.
func leftBehind(newest *fleet.Rollout, channel string, policy *fleet.RolloutPolicy) bool {
	return Finished(newest.Status.State) && newest.Spec.To != channel &&
		(policy == nil || newest.Status.VersionWithoutPolicy == channel)
}

// everywhere reports whether all waves but the last one are proven, the last one is ready, and every runtime is
// updated.
func everywhere(status fleet.RolloutStatus) bool {
	if status.Total == 0 || status.Updated < status.Total {
		return false
	}
	for i, w := range status.Waves {
		if w.ReadyAt == nil || w.ProvenAt == nil && i < len(status.Waves)-1 {
			return false
		}
	}
	return true
}

// proven reports whether one of a track's earlier rollouts proved the version of a rollout: all of its waves were
// proven with that version, or it was the last good one.
func proven(of *fleet.Rollout, own []*fleet.Rollout) bool {
	return slices.ContainsFunc(own, func(r *fleet.Rollout) bool {
		brought := r.Spec.To == of.Spec.To && r.Status.State == fleet.RolloutSucceeded && r.Status.Updated > 0
		return r.Spec.Revision < of.Spec.Revision && (brought || r.Spec.From == of.Spec.To)
	})
}

// mostCommon returns the most common version that is older than the promoted one. It is the last good version of a
// track without rollouts. It is empty if no runtime has an older version; then no runtime needs waves.
func mostCommon(promoted string, runtimes []Runtime) string {
	votes := map[string]int{}
	for i := range runtimes {
		votes[runtimes[i].Version]++
	}
	best := ""
	for _, version := range slices.Sorted(maps.Keys(votes)) { // a fleet has few
		if bundle.Older(version, promoted) && (best == "" || votes[version] > votes[best]) {
			best = version
		}
	}
	return best
}
