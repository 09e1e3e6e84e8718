package rollout

import (
	"slices"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// RefusedRollout describes a Rollout that cannot be created. All runtimes of its track keep their versions. The planner
// sends it to the shards, because it does not exist in the API server.
type RefusedRollout struct {
	Module  string `json:"module"`
	Channel string `json:"channel,omitempty"`
	From    string `json:"from,omitempty"`
	To      string `json:"to"`
	// FromUnproven is the value of spec.fromUnproven.
	FromUnproven bool `json:"fromUnproven,omitempty"`
	// Reason becomes the message of the module in the runtimes.
	Reason string `json:"reason"`
}

// HoldRefused must be called if the API server refuses to create a Rollout. It removes the Rollout from r, and all
// runtimes keep their versions. reason becomes the message of the module in these runtimes.
func (r *Round) HoldRefused(refused *fleet.Rollout, reason string) {
	same := func(other *fleet.Rollout) bool { return other.Name == refused.Name }
	r.Create, r.Newest = slices.DeleteFunc(r.Create, same), slices.DeleteFunc(r.Newest, same)
	spec := refused.Spec
	held := RefusedRollout{
		Module: spec.Module, Channel: spec.Channel, From: spec.From, To: spec.To, FromUnproven: spec.FromUnproven,
		Reason: reason,
	}
	r.Refused = append(r.Refused, held)
	r.Gates.HoldRefused([]RefusedRollout{held})
	r.IsActive = true
}

// HoldRefused replaces the Gates of the refused Rollouts' tracks, so that all runtimes keep their versions. It must be
// called before g is used.
func (g Gates) HoldRefused(refused []RefusedRollout) {
	for _, r := range refused {
		spec := fleet.RolloutSpec{Module: r.Module, Channel: r.Channel, From: r.From, To: r.To}
		g[TrackOf(&fleet.Rollout{Spec: spec})] = &Gate{
			from: r.From, to: r.To, isFromUnproven: r.FromUnproven, heldReason: r.Reason,
		}
	}
}
