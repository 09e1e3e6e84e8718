package rollout

import (
	"fmt"
	"slices"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// findRejected returns the newest rollout of a version if this rollout was stopped or rolled back. Otherwise, it
// returns nil. rollouts contains the rollouts of one track.
func findRejected(rollouts []*fleet.Rollout, version string) *fleet.Rollout {
	var last *fleet.Rollout
	for _, r := range rollouts {
		if r.Spec.To != version || r.Status.State == fleet.RolloutSuperseded {
			continue
		}
		if last == nil || r.Spec.Revision > last.Spec.Revision {
			last = r
		}
	}
	if last == nil {
		return nil
	}
	switch last.Status.State {
	case fleet.RolloutStopped, fleet.RolloutRollingBack, fleet.RolloutRolledBack:
		return last
	}
	return nil
}

// Rejection is a version that a channel offers although a rollout of this version was stopped or rolled back.
type Rejection struct {
	// Channel is the channel that has the version. It can differ from the channel of Rollout.
	Channel string
	Rollout *fleet.Rollout
}

// ListRejected returns the channels with a version whose rollout was stopped or rolled back in any channel of the
// module. It omits a channel if its own rollout of the version succeeded later. The result is in the order of the
// channels in metas.
func ListRejected(metas []v1beta2.ModuleReleaseMeta, rollouts []fleet.Rollout) (all []Rejection) {
	byTrack := groupByTrack(rollouts)
	for i := range metas {
		module := metas[i].Spec.ModuleName
		for _, c := range metas[i].Spec.Channels {
			own := byTrack[Track{Module: module, Channel: c.Channel}]
			r := findRejected(own, c.Version)
			if r == nil {
				r = findRejectedElsewhere(byTrack, module, c, own)
			}
			if r != nil {
				all = append(all, Rejection{c.Channel, r})
			}
		}
	}
	return all
}

// findRejectedElsewhere returns the last rollout in another channel that rejected the version of the offered channel.
// own contains the offered channel's own rollouts. If one of them succeeded later with this version,
// findRejectedElsewhere returns nil.
func findRejectedElsewhere(
	byTrack map[Track][]*fleet.Rollout, module string, offered v1beta2.ChannelVersion, own []*fleet.Rollout,
) *fleet.Rollout {
	var last *fleet.Rollout
	for track, rollouts := range byTrack {
		if track.Module != module || track.Channel == offered.Channel {
			continue
		}
		r := findRejected(rollouts, offered.Version)
		if r != nil && (last == nil || isAfter(r, last) || !isAfter(last, r) && r.Name < last.Name) {
			last = r
		}
	}
	if last == nil || slices.ContainsFunc(own, func(r *fleet.Rollout) bool {
		return r.Spec.To == offered.Version && r.Status.State == fleet.RolloutSucceeded && isAfter(r, last)
	}) {
		return nil
	}
	return last
}

// isAfter reports whether a rollout ended after another one. A rollout that has not ended is after all others.
func isAfter(r, other *fleet.Rollout) bool {
	switch {
	case other.Status.FinishedAt == nil:
		return false
	case r.Status.FinishedAt == nil:
		return true
	}
	return r.Status.FinishedAt.After(other.Status.FinishedAt.Time)
}

// RejectionMessage returns a message about a rejected version in a channel.
func RejectionMessage(r Rejection) string {
	what, name := "rolled it back", r.Rollout.Name
	if r.Rollout.Status.State == fleet.RolloutStopped {
		what = "stopped"
	}
	if r.Channel != r.Rollout.Spec.Channel {
		name += " in channel " + r.Rollout.Spec.Channel
	}
	return fmt.Sprintf("version %s of module %s in channel %s: rollout %s %s: %s",
		r.Rollout.Spec.To, r.Rollout.Spec.Module, r.Channel, name, what, r.Rollout.Status.Message)
}
