package rollout

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// FindNewer returns the name of the newest rollout of the same track. It returns "" if the given rollout is the newest.
// It ignores Rollouts that are being deleted.
func FindNewer(given *fleet.Rollout, all []fleet.Rollout) string {
	for _, newest := range NewestRollouts(all) {
		if TrackOf(newest) == TrackOf(given) && newest.Spec.Revision > given.Spec.Revision {
			return newest.Name
		}
	}
	return ""
}

// ObjectName returns a name for the Rollout of a track with this revision. Names of different tracks differ, except if
// a channel is called fleet.VersionRemoved.
func ObjectName(track Track, revision int64) string {
	// Shorten the module's name, because the whole name can be at most 253 bytes.
	const maxModule = 180
	module := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(track.Module))
	if module != track.Module || len(module) > maxModule {
		sum := sha256.Sum256([]byte(track.Module))
		module = fmt.Sprintf("%.*s-%x", maxModule, module, sum[:8])
	}
	name := module
	if track.Channel != "" {
		name += "-" + track.Channel
	}
	if track.IsRemoval {
		name += "-" + fleet.VersionRemoved
	}
	return fmt.Sprintf("%s-%d", name, revision)
}

// newRollout returns a new Rollout of a track. earlier contains the existing Rollouts of the track.
func newRollout(track Track, spec fleet.RolloutSpec, earlier []*fleet.Rollout) *fleet.Rollout {
	r := &fleet.Rollout{Spec: spec}
	r.Name = ObjectName(track, spec.Revision)
	for _, before := range sortedFromNewest(earlier) {
		if before.Status.State == fleet.RolloutSucceeded {
			break // its result and all earlier results are accepted
		}
		if before.Spec.From != spec.From || before.Spec.To != spec.To {
			continue
		}
		// The oldest attempts may have been deleted, so also use the names that later attempts list.
		for _, name := range append([]string{before.Name}, before.Spec.Predecessors...) {
			if !slices.Contains(r.Spec.Predecessors, name) && len(r.Spec.Predecessors) < maxPredecessors {
				r.Spec.Predecessors = append(r.Spec.Predecessors, name)
			}
		}
	}
	return r
}

// maxPredecessors is the limit of the API for spec.predecessors of a Rollout.
const maxPredecessors = 100

func sortedFromNewest(rollouts []*fleet.Rollout) []*fleet.Rollout {
	return slices.SortedFunc(slices.Values(rollouts), func(a, b *fleet.Rollout) int {
		return cmp.Compare(b.Spec.Revision, a.Spec.Revision)
	})
}

// nextRollout returns the Rollout to create for the new version of a channel, or nil if none is needed. runtimes
// contains the runtimes that follow the track.
func nextRollout(
	policy *fleet.RolloutPolicy, track Track, version string, newest *fleet.Rollout, runtimes []Runtime,
) *fleet.RolloutSpec {
	from, isUnproven, revision := "", false, int64(1)
	if newest == nil {
		from = mostCommonVersion(version, runtimes)
		isUnproven = slices.ContainsFunc(runtimes, func(r Runtime) bool { return bundle.IsOlder(r.Version, from) })
	} else {
		if mustRollBack(newest, version) {
			return nil // no new rollout before the rollback is finished
		}
		if newest.Spec.To == version && !isRepeatable(newest) {
			return nil
		}
		from, isUnproven, revision = lastGoodVersion(newest), isLastGoodUnproven(newest), newest.Spec.Revision+1
	}
	if from == "" || from == version {
		return nil
	}
	return &fleet.RolloutSpec{
		Policy: policy.Name, Module: track.Module, Channel: track.Channel, Revision: revision, From: from, To: version,
		FromUnproven: isUnproven, Course: completeCourse(policy.Spec.Course),
	}
}

// mustRollBack reports whether a rollout rolls back, or must roll back in its next step, because an operator has undone
// it or has set the channel back to its last good version.
func mustRollBack(newest *fleet.Rollout, channel string) bool {
	switch state := newest.Status.State; state {
	case fleet.RolloutRollingBack:
		return true
	case fleet.RolloutRolledBack, fleet.RolloutSuperseded:
		return false
	default:
		return newest.Spec.Undo || !IsFinished(state) && channel == newest.Spec.From
	}
}

// isLastGoodUnproven reports whether lastGoodVersion returns a version that no known rollout proved.
func isLastGoodUnproven(before *fleet.Rollout) bool {
	return before.Spec.FromUnproven && before.Status.VersionWithoutPolicy == "" &&
		lastGoodVersion(before) == before.Spec.From
}

// isRepeatable reports whether a new rollout may promote the same version as an ended rollout. If the ended rollout was
// stopped or rolled back, an operator must have requested a retry, or the channel must have had a different version
// since then.
func isRepeatable(ended *fleet.Rollout) bool {
	state := ended.Status.State
	return state == fleet.RolloutSuperseded || (state == fleet.RolloutStopped || state == fleet.RolloutRolledBack) &&
		(ended.Spec.Retry || ended.Status.ReleasedAt != nil)
}

// isReleasable reports whether the channel has a different version after the rollout of the held version was stopped or
// rolled back. A later rollout can then promote the held version again.
func isReleasable(state fleet.RolloutState, held, channel string) bool {
	ended := state == fleet.RolloutStopped || state == fleet.RolloutRollingBack || state == fleet.RolloutRolledBack
	return ended && channel != held
}

// lastGoodVersion returns the version that runtimes return to if the next promotion fails. before is the track's
// previous rollout.
//   - If a version was published without a policy after the previous rollout, it is that version.
//   - If every runtime has the promoted version of the previous rollout, except deferred runtimes, it is that version.
//   - Otherwise, it is the last good version of the previous rollout.
func lastGoodVersion(before *fleet.Rollout) string {
	if before.Status.VersionWithoutPolicy != "" {
		return before.Status.VersionWithoutPolicy
	}
	if state := before.Status.State; state == fleet.RolloutSucceeded ||
		!IsFinished(state) && isUpdatedWherePossible(before.Status) {
		return before.Spec.To
	}
	return before.Spec.From
}

// needsNoRollout reports whether the channel's version is published without a rollout. This is the case if the newest
// rollout of the track has ended with a different version, and no policy applied when the channel's version was
// published.
func needsNoRollout(newest *fleet.Rollout, channel string, policy *fleet.RolloutPolicy) bool {
	// If the runtimes must return to an older version, the newest rollout must roll them back. The effect of an undo ends
	// with the rollback.
	returns := channel == newest.Spec.From || newest.Spec.Undo && newest.Status.State != fleet.RolloutRolledBack
	return IsFinished(newest.Status.State) && newest.Spec.To != channel && !returns &&
		(policy == nil || newest.Status.VersionWithoutPolicy == channel)
}

// isUpdatedWherePossible reports whether every runtime is updated or deferred, the last wave is ready, and all other
// waves have proved the version. A large fleet always has offline runtimes. A ready wave has at most maxDeferred of
// them, or an operator accepted more.
func isUpdatedWherePossible(status fleet.RolloutStatus) bool {
	// The sum excludes runtimes that failed, have not reported a result, or wait for the version.
	if status.Updated == 0 || status.Updated+status.Deferred != status.Total {
		return false
	}
	for i, w := range status.Waves {
		if w.ReadyAt == nil || w.ProvenAt == nil && i < len(status.Waves)-1 {
			return false
		}
	}
	return true
}

// isProven reports whether the candidate's version already works in the fleet: an earlier rollout of the track promoted
// it successfully, or it was the last good version of an earlier rollout.
func isProven(candidate *fleet.Rollout, own []*fleet.Rollout) bool {
	return slices.ContainsFunc(own, func(r *fleet.Rollout) bool {
		brought := r.Spec.To == candidate.Spec.To && r.Status.State == fleet.RolloutSucceeded && r.Status.Updated > 0
		wasGood := r.Spec.From == candidate.Spec.To && !r.Spec.FromUnproven
		return r.Spec.Revision < candidate.Spec.Revision && (brought || wasGood)
	})
}

// The first rollout of a track starts only if at least minOutdatedPercent of the runtimes have an older version.
const minOutdatedPercent = 10

// mostCommonVersion returns the most common version among the runtimes with an older version than the promoted one. It
// is used as the last good version of a track without earlier rollouts. It returns "" if less than minOutdatedPercent
// of the runtimes have an older version, because single runtimes need no rollout. If the control plane lost its
// Rollouts, the runtimes without the version get it in waves again.
func mostCommonVersion(promoted string, runtimes []Runtime) string {
	votes, outdated := countVersions(runtimes), 0
	isOutdated := func(version string) bool { return bundle.IsOlder(version, promoted) }
	for version, n := range votes {
		if isOutdated(version) {
			outdated += n
		}
	}
	if outdated*100 < len(runtimes)*minOutdatedPercent {
		return ""
	}
	return mostCommon(votes, isOutdated)
}

// countVersions returns the number of runtimes with each version.
func countVersions(runtimes []Runtime) map[string]int {
	votes := map[string]int{}
	for i := range runtimes {
		votes[runtimes[i].Version]++
	}
	return votes
}

// mostCommon returns the version with the most votes among the candidates, or "". If several versions have the most
// votes, it returns the first one in the order of strings.
func mostCommon(votes map[string]int, isCandidate func(version string) bool) string {
	best := ""
	for _, version := range slices.Sorted(maps.Keys(votes)) { // sorting is cheap, because a fleet has few versions
		if isCandidate(version) && (best == "" || votes[version] > votes[best]) {
			best = version
		}
	}
	return best
}
