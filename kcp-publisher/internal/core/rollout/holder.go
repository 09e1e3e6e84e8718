package rollout

import (
	"fmt"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// Holder decides in which runtimes a rollout delays the promoted version. It uses only the status of the Rollout
// object. It is safe for concurrent use.
type Holder struct {
	Rollout *fleet.Rollout
	plan    plan
	// readable is true if the rollout's course is valid and its status contains all waves. The first element of held is
	// the message for runtimes that no wave selects. The messages for each wave follow.
	readable bool
	held     []string
}

// NewHolder returns the Holder of a track's newest rollout. It returns nil if the rollout does not delay versions.
func NewHolder(newest *fleet.Rollout) *Holder {
	if state := newest.Status.State; state == fleet.RolloutSuperseded || state == fleet.RolloutSucceeded {
		return nil
	}
	h := &Holder{Rollout: newest, plan: plan{name: newest.Name, spec: newest.Spec, status: newest.Status}}
	if h.readable = Check(newest.Spec.Course) == nil && len(newest.Status.Waves) == len(newest.Spec.Waves); h.readable {
		h.plan.selectors()
	}
	for wave := range len(h.plan.waves) + 1 {
		h.held = append(h.held, h.plan.held(wave-1))
	}
	return h
}

// Touched reports whether this rollout selected the runtime's current version.
func (h *Holder) Touched(runtime *Runtime) bool {
	return runtime.Given != nil && runtime.Given.Rollout == h.plan.name
}

// HoldsNothingFrom reports whether the rollout cannot delay anything in a runtime with this version, because it is the
// promoted version.
func (h *Holder) HoldsNothingFrom(version string) bool {
	return h.readable && version == h.plan.spec.To && !h.plan.back()
}

// Why returns the reason why the rollout delays the promoted version in a runtime. It returns "" if the version is not
// delayed.
func (h *Holder) Why(runtime *Runtime) string {
	back, touched := h.plan.back(), h.Touched(runtime)
	switch {
	case h.readable && runtime.Version == h.plan.spec.To && (!back || !touched):
		return ""
	case back && !touched:
		return fmt.Sprintf("rollout %s was rolled back: no more runtimes get version %s", h.plan.name,
			h.plan.spec.To)
	case !h.readable:
		return h.held[0]
	}
	one := h.plan
	one.members = []member{{place: place(one.spec.Policy, runtime.ID)}}
	return h.held[one.waveOf(0, runtime.Labels)+1]
}
