package rollout

import (
	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// Holder decides in which runtimes a rollout delays the promoted version. It uses only the Rollout object, not the
// state of all runtimes. It is safe for concurrent use.
type Holder struct {
	Rollout *fleet.Rollout
	plan    plan
	// isReadable is true if the rollout's spec.course is valid and its status contains all waves.
	isReadable bool
	reasons    holdReasons
}

// NewHolder returns the Holder of a track's newest rollout. It returns nil if the rollout does not delay versions.
func NewHolder(newest *fleet.Rollout) *Holder {
	if state := newest.Status.State; state == fleet.RolloutSuperseded || state == fleet.RolloutSucceeded {
		return nil
	}
	h := &Holder{Rollout: newest, plan: plan{name: newest.Name, spec: newest.Spec, status: newest.Status}}
	if h.isReadable = CheckCourse(newest.Spec.Course) == nil &&
		len(newest.Status.Waves) == len(newest.Spec.Waves); h.isReadable {
		h.plan.parseWaves()
	}
	h.reasons = h.plan.holdReasons()
	return h
}

// HasSelected reports whether this rollout selected the runtime's current version. During a rollback, this includes the
// rollout's predecessors.
func (h *Holder) HasSelected(runtime *Runtime) bool {
	return h.plan.hasSelected(runtime) || h.plan.isRollingBack() && h.plan.isOfPredecessor(runtime)
}

// HasPromotedVersion reports whether version is the promoted version and the rollout is not rolling back. The rollout
// then delays nothing in a runtime with this version.
func (h *Holder) HasPromotedVersion(version string) bool {
	return h.isReadable && version == h.plan.spec.To && !h.plan.isRollingBack()
}

// HeldReason returns the reason why the rollout delays the promoted version in a runtime, or "".
func (h *Holder) HeldReason(runtime *Runtime) string {
	isSelected := h.HasSelected(runtime)
	switch {
	case !h.isReadable:
		return h.reasons.find(noWave, isSelected)
	case runtime.Version == h.plan.spec.To && (!h.plan.isRollingBack() || !isSelected):
		return ""
	}
	one := h.plan
	one.members = []member{{place: hashPlace(one.spec.Policy, runtime.ID)}}
	return h.reasons.find(one.findWave(0, runtime), isSelected)
}
