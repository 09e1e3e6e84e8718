package rollout

import (
	"fmt"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// Holder knows from which runtimes the newest rollout of a track keeps its version. It uses the recorded status only,
// not the next step. It is safe for concurrent use.
type Holder struct {
	Rollout *fleet.Rollout
	plan    plan
	// readable is true if the waves are known. held has the message for no wave, followed by one for each wave.
	readable bool
	held     []string
}

// NewHolder returns the holder of a rollout, nil if every runtime may have the version.
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

// Touched reports whether the rollout gave a runtime its version.
func (h *Holder) Touched(runtime *Runtime) bool {
	return runtime.Given != nil && runtime.Given.Rollout == h.plan.name
}

// Spares reports whether the rollout holds no runtime that was given this version, independent of its other facts.
func (h *Holder) Spares(version string) bool {
	return h.readable && version == h.plan.spec.To && !h.plan.back()
}

// Why returns why the rollout keeps its version from a runtime, empty if it does not.
func (h *Holder) Why(runtime *Runtime) string {
	back, touched := h.plan.back(), h.Touched(runtime)
	switch {
	case h.readable && runtime.Version == h.plan.spec.To && (!back || !touched):
		return ""
	case back && !touched:
		return fmt.Sprintf("rollout %s was rolled back: version %s goes to no further runtime", h.plan.name,
			h.plan.spec.To)
	case !h.readable:
		return h.held[0]
	}
	one := h.plan
	one.members = []member{{place: place(one.spec.Policy, runtime.ID)}}
	return h.held[one.waveOf(0, runtime.Labels)+1]
}
