package rollout

import (
	"cmp"
	"slices"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// Track is a module in a channel. If IsRemoval is true, it is the removal of the module from the runtimes of the
// channel that must no longer have it. Channel is empty for the removal of a module that was mandatory.
type Track struct {
	Module, Channel string
	IsRemoval       bool
}

// TrackOf returns the track of a Rollout.
func TrackOf(r *fleet.Rollout) Track {
	return Track{Module: r.Spec.Module, Channel: r.Spec.Channel, IsRemoval: IsRemoval(r.Spec)}
}

// MarshalText encodes a track as the key of a JSON object.
func (t Track) MarshalText() ([]byte, error) {
	text := t.Module + "/" + t.Channel
	if t.IsRemoval {
		text += "/" + fleet.VersionRemoved
	}
	return []byte(text), nil
}

// Followers contains the runtimes that follow a track (a module in a channel), and the channel's version. For a
// removal, these are the runtimes that lose or have lost the module. Channel is then fleet.VersionRemoved, or empty if
// the catalog offers the module to all of them again.
type Followers struct {
	Channel  string
	Runtimes []Runtime
}

// FindPolicy returns the RolloutPolicy that applies to a track, or nil. If several policies match the track, the first
// one by name applies.
func FindPolicy(policies []fleet.RolloutPolicy, track Track) *fleet.RolloutPolicy {
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

// groupByTrack groups the Rollouts by track. It omits Rollouts that are being deleted.
func groupByTrack(rollouts []fleet.Rollout) map[Track][]*fleet.Rollout {
	byTrack := map[Track][]*fleet.Rollout{}
	for i := range rollouts {
		r := &rollouts[i]
		if r.DeletionTimestamp.IsZero() {
			byTrack[TrackOf(r)] = append(byTrack[TrackOf(r)], r)
		}
	}
	return byTrack
}

// NewestRollout returns the newest rollout of one track, or nil.
func NewestRollout(rollouts []*fleet.Rollout) *fleet.Rollout {
	if len(rollouts) == 0 {
		return nil
	}
	return slices.MaxFunc(rollouts, func(a, b *fleet.Rollout) int {
		return cmp.Compare(a.Spec.Revision, b.Spec.Revision)
	})
}

// NewestRollouts returns the newest Rollout of each track. It ignores Rollouts that are being deleted.
func NewestRollouts(rollouts []fleet.Rollout) (newest []*fleet.Rollout) {
	for _, own := range groupByTrack(rollouts) {
		newest = append(newest, NewestRollout(own))
	}
	return newest
}
