package plan

import (
	"cmp"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// Holders maps each track (a module in a channel) to its newest rollout if that rollout delays a version. It is safe
// for concurrent use.
type Holders map[rollout.Track]*rollout.Holder

// VersionHold is a rollout that delays a version in a runtime.
type VersionHold struct {
	Rollout *fleet.Rollout
	// HasSelected is true if this rollout selected the version that the runtime has now.
	HasSelected bool
	// HoldReason contains the name of the rollout and the reason for the delay.
	HoldReason string
}

// NewHolders finds the newest rollout of each track (a module in a channel) and returns those that delay a version.
func NewHolders(rollouts []fleet.Rollout) Holders {
	holders := Holders{}
	for _, r := range rollout.NewestRollouts(rollouts) {
		if h := rollout.NewHolder(r); h != nil {
			holders[rollout.TrackOf(r)] = h
		}
	}
	return holders
}

// MayHold reports whether a rollout may delay a newer version of the module in a runtime that has the given version.
func (h Holders) MayHold(module, version string) bool {
	for track, holder := range h {
		if track.Module == module && !holder.HasPromotedVersion(version) {
			return true
		}
	}
	return false
}

// HoldsFor returns the rollouts that delay a new version or a removal of a module in the Kyma's runtime. The map is
// keyed by module.
func (h Holders) HoldsFor(kyma *v1beta2.Kyma) map[string]VersionHold {
	if len(h) == 0 {
		return nil
	}
	request, err := parseRequest(kyma)
	if err != nil {
		return nil // the publisher does not publish bundles for a Kyma with invalid annotations
	}
	held := h.removalHolds(kyma)
	for i := range request.Requested.Modules {
		module := &request.Requested.Modules[i]
		if !module.Managed || module.Pin() != "" {
			continue
		}
		holder := h[rollout.Track{Module: module.Name, Channel: cmp.Or(module.Channel, request.Requested.Channel)}]
		if holder == nil {
			continue
		}
		runtime := moduleRuntime(kyma, RuntimeID(kyma), module.Name, LastReport(kyma, nil, time.Time{}))
		if why := holder.HeldReason(&runtime); why != "" {
			if held == nil {
				held = map[string]VersionHold{}
			}
			held[module.Name] = VersionHold{Rollout: holder.Rollout, HasSelected: holder.HasSelected(&runtime), HoldReason: why}
		}
	}
	return held
}

// removalHolds returns the rollouts that delay the removal of a module from the Kyma's runtime. The map is keyed by
// module.
func (h Holders) removalHolds(kyma *v1beta2.Kyma) map[string]VersionHold {
	var held map[string]VersionHold
	for _, r := range trackedRemovals(kyma) {
		holder := h[r.track]
		if holder == nil || r.pending == nil {
			continue
		}
		runtime := r.runtime(kyma, RuntimeID(kyma), LastReport(kyma, nil, time.Time{}))
		if why := holder.HeldReason(&runtime); why != "" {
			if held == nil {
				held = map[string]VersionHold{}
			}
			held[r.track.Module] = VersionHold{Rollout: holder.Rollout, HasSelected: holder.HasSelected(&runtime),
				HoldReason: why}
		}
	}
	return held
}
