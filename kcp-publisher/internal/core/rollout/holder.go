package rollout

import (
	"fmt"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// Holder says from which runtimes the newest rollout of a track keeps its version. It goes by what is written down, and
// knows nothing of what the next step will decide. It is safe for concurrent use.
type Holder struct {
	Rollout *fleet.Rollout
	plan    plan
	// readable says that the waves are known; held is what is said of each, after what is said of none.
	readable bool
	held     []string
}

// NewHolder returns the holder of a rollout, nil where it keeps its version from nobody.
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

// Touched reports whether the rollout gave a runtime the version that it has.
func (h *Holder) Touched(runtime *Runtime) bool {
	return runtime.Given != nil && runtime.Given.Rollout == h.plan.name
}

// Spares reports whether it keeps its version from no runtime that was given this one, whatever else there is to know
// of the runtime.
func (h *Holder) Spares(version string) bool {
	return h.readable && version == h.plan.spec.To && !h.plan.back()
}

// Why says why the version is kept from a runtime, empty when it is not.
func (h *Holder) Why(runtime *Runtime) string {
	back, touched := h.plan.back(), h.Touched(runtime)
	switch {
	case h.readable && runtime.Version == h.plan.spec.To && (!back || !touched):
		return ""
	case back && !touched:
		return fmt.Sprintf("rollout %s was rolled back: version %s goes to no further runtime", h.plan.name, h.plan.spec.To)
	case !h.readable:
		return h.held[0]
	}
	one := h.plan
	one.members = []member{{place: place(one.spec.Policy, runtime.ID)}}
	return h.held[one.waveOf(0, runtime.Labels)+1]
}
