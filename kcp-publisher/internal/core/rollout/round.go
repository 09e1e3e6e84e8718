package rollout

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// Round is the result of evaluating all tracks once. The caller must write the objects in Create and Update before it
// uses Gates.
type Round struct {
	// Create contains the new Rollouts with their first status. Update contains the Rollouts whose status changed.
	// Delete contains the old Rollouts to delete.
	Create, Update, Delete []*fleet.Rollout
	// Gates maps each track (a module in a channel) to the decisions about its runtimes. If a track is missing, all
	// runtimes can have the channel's version.
	Gates Gates
	// Newest contains the newest Rollout of each track, sorted by name.
	Newest []*fleet.Rollout
	// Refused contains the Rollouts that cannot be created: see HoldRefused.
	Refused []RefusedRollout
	// IsActive is true if a rollout is in progress.
	IsActive bool

	places placeCache
}

// RestFilter returns a function that reports whether a track can be skipped in an evaluation. This is the case if it
// has no policy and no Rollout, or if its newest Rollout succeeded, is complete, and the channel still has the promoted
// version.
func RestFilter(
	policies []fleet.RolloutPolicy, rollouts []fleet.Rollout, now time.Time,
) func(track Track, channel string) bool {
	byTrack := groupByTrack(rollouts)
	return func(track Track, channel string) bool {
		newest := NewestRollout(byTrack[track])
		if newest == nil {
			return FindPolicy(policies, track) == nil
		}
		return hasSucceeded(newest) && lastGoodVersion(newest) == channel && !takesFinalValues(newest, now)
	}
}

// The newest maxKeptRollouts Rollouts of a track are never deleted.
const maxKeptRollouts = 10

// recordAllowedVersion records in the status of an ended Rollout that all runtimes can have this version without a
// rollout. An empty version means the version that this Rollout promoted.
func (r *Round) recordAllowedVersion(ended *fleet.Rollout, version string, now time.Time) *fleet.Rollout {
	p := newPlan(ended.Name, ended.Spec, ended.Status, PlanInput{ChannelVersion: version, Now: now})
	p.recordRelease()
	p.status.VersionWithoutPolicy = version
	return r.updateEnded(ended, p.status)
}

// recordSuccess records in the status of a successful Rollout that all runtimes can have the promoted version. Shortly
// after the end of the Rollout, it also records the final values of the checks.
func (r *Round) recordSuccess(ended *fleet.Rollout, runtimes []Runtime, now time.Time) *fleet.Rollout {
	p := newPlan(ended.Name, ended.Spec, ended.Status, PlanInput{Now: now, places: r.places})
	p.status.VersionWithoutPolicy = ""
	if takesFinalValues(ended, now) {
		p.recordFinalValues(runtimes)
	}
	return r.updateEnded(ended, p.status)
}

func (r *Round) updateEnded(ended *fleet.Rollout, status fleet.RolloutStatus) *fleet.Rollout {
	if equality.Semantic.DeepEqual(ended.Status, status) {
		return ended
	}
	next := ended.DeepCopy()
	next.Status = status
	r.Update = append(r.Update, next)
	return next
}

// addRecordedGate adds the Gate of a Rollout that needs no next step: see newRecordedGate.
func (r *Round) addRecordedGate(newest *fleet.Rollout) {
	r.Gates[TrackOf(newest)] = newRecordedGate(newest)
	r.Newest = append(r.Newest, newest)
}

func (r *Round) addRollout(rollout *fleet.Rollout, status fleet.RolloutStatus, now time.Time) {
	// The API server sets generation 1 when it creates an object.
	status.ObservedGeneration = max(rollout.Generation, 1)
	status.Conditions = conditions(rollout.Status.Conditions, status, now)
	next := rollout.DeepCopy()
	next.Status = status
	switch {
	case rollout.ResourceVersion == "":
		r.Create = append(r.Create, next)
	case !equality.Semantic.DeepEqual(rollout.Status, status):
		r.Update = append(r.Update, next)
	}
	if status.State != fleet.RolloutSuperseded {
		r.Newest = append(r.Newest, next)
	}
	r.IsActive = r.IsActive || !IsFinished(status.State)
}

// conditions returns the standard conditions for a Rollout's status. Tools such as `kubectl wait` use them.
func conditions(before []metav1.Condition, status fleet.RolloutStatus, now time.Time) []metav1.Condition {
	after := slices.Clone(before)
	set := func(kind string, is metav1.ConditionStatus) {
		meta.SetStatusCondition(&after, metav1.Condition{
			Type: kind, Status: is, Reason: cmp.Or(string(status.State), string(fleet.RolloutProgressing)),
			Message:            status.Message,
			ObservedGeneration: status.ObservedGeneration,
			LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
		})
	}
	switch status.State {
	case fleet.RolloutSucceeded, fleet.RolloutSuperseded:
		set(fleet.ConditionReady, metav1.ConditionTrue)
		meta.RemoveStatusCondition(&after, fleet.ConditionStalled)
	case fleet.RolloutStopped, fleet.RolloutRolledBack:
		set(fleet.ConditionReady, metav1.ConditionFalse)
		set(fleet.ConditionStalled, metav1.ConditionTrue)
	default:
		set(fleet.ConditionReady, metav1.ConditionFalse)
		meta.RemoveStatusCondition(&after, fleet.ConditionStalled)
	}
	return after
}

func (r *Round) deleteOld(own []*fleet.Rollout) {
	if len(own) <= maxKeptRollouts {
		return
	}
	for _, old := range sortedFromNewest(own)[maxKeptRollouts:] {
		if IsFinished(old.Status.State) {
			r.Delete = append(r.Delete, old)
		}
	}
}
