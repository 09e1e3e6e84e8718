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

// Covering returns the policy that applies to a track, or nil. The first matching policy by name applies.
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

// Newest returns the newest rollout of one track, or nil.
func Newest(rollouts []*fleet.Rollout) *fleet.Rollout {
	if len(rollouts) == 0 {
		return nil
	}
	return slices.MaxFunc(rollouts, func(a, b *fleet.Rollout) int {
		return cmp.Compare(a.Spec.Revision, b.Spec.Revision)
	})
}

// Newer returns the name of the newest rollout of a rollout's track, or "" if the rollout itself is the newest.
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

// Name returns the name of the rollout of a track with this revision.
func Name(track Track, revision int64) string {
	const maxModule = 180 // an object name of 253 bytes also contains the channel and the revision
	module := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(track.Module))
	return fmt.Sprintf("%.*s-%s-%d", maxModule, module, track.Channel, revision)
}

// Next returns the rollout to create for the channel's version, or nil. runtimes are the runtimes that follow the
// track.
func Next(
	policy *fleet.RolloutPolicy, track Track, version string, newest *fleet.Rollout, runtimes []Runtime,
) *fleet.RolloutSpec {
	from, revision := "", int64(1)
	if newest == nil {
		from = mostCommon(version, runtimes)
	} else {
		if newest.Status.State == fleet.RolloutRollingBack {
			return nil // no new rollout starts before the rollback is finished
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

// repeatable reports whether another rollout of the same version can follow an ended rollout. After a stopped or
// rolled-back rollout, an operator must have requested a retry, or the channel must have had another version since.
func repeatable(ended *fleet.Rollout) bool {
	state := ended.Status.State
	return state == fleet.RolloutSuperseded || (state == fleet.RolloutStopped || state == fleet.RolloutRolledBack) &&
		(ended.Spec.Retry || ended.Status.ReleasedAt != nil)
}

// releasable reports whether a stopped or rolled-back rollout is about a version that its channel does not have
// anymore.
func releasable(state fleet.RolloutState, held, channel string) bool {
	ended := state == fleet.RolloutStopped || state == fleet.RolloutRollingBack || state == fleet.RolloutRolledBack
	return ended && channel != held
}

// lastGood returns the version to which runtimes return if the next promotion after a rollout fails:
//   - the version that was published without a policy after the rollout, if any;
//   - the rollout's promoted version, if every runtime has it;
//   - otherwise, the rollout's last good version.
func lastGood(before *fleet.Rollout) string {
	if before.Status.VersionWithoutPolicy != "" {
		return before.Status.VersionWithoutPolicy
	}
	if state := before.Status.State; state == fleet.RolloutSucceeded ||
		!Finished(state) && updatedEverywhere(before.Status) {
		return before.Spec.To
	}
	return before.Spec.From
}

// needsNoRollout reports whether the newest rollout of the track ended with another version and no policy applies to
// the channel's version.
func needsNoRollout(newest *fleet.Rollout, channel string, policy *fleet.RolloutPolicy) bool {
	// A rollout that must roll runtimes back must be planned.
	returns := channel == newest.Spec.From || newest.Spec.Undo
	return Finished(newest.Status.State) && newest.Spec.To != channel && !returns &&
		(policy == nil || newest.Status.VersionWithoutPolicy == channel)
}

// updatedEverywhere reports whether every runtime is updated, the last wave is ready, and all other waves are proven.
func updatedEverywhere(status fleet.RolloutStatus) bool {
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

// proven reports whether an earlier rollout of the track succeeded with the version, or started when it was the last
// good version.
func proven(of *fleet.Rollout, own []*fleet.Rollout) bool {
	return slices.ContainsFunc(own, func(r *fleet.Rollout) bool {
		brought := r.Spec.To == of.Spec.To && r.Status.State == fleet.RolloutSucceeded && r.Status.Updated > 0
		return r.Spec.Revision < of.Spec.Revision && (brought || r.Spec.From == of.Spec.To)
	})
}

// mostCommon returns the most common older version among runtimes, which is the last good version of a track without
// rollouts. It returns "" if no rollout is needed.
func mostCommon(promoted string, runtimes []Runtime) string {
	votes := map[string]int{}
	for i := range runtimes {
		votes[runtimes[i].Version]++
	}
	best := ""
	for _, version := range slices.Sorted(maps.Keys(votes)) { // a fleet has few versions
		if bundle.Older(version, promoted) && (best == "" || votes[version] > votes[best]) {
			best = version
		}
	}
	if votes[promoted] >= votes[best] {
		return ""
	}
	return best
}
