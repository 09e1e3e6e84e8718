package rollout

import (
	"fmt"

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

// ListRejected returns the stopped or rolled-back rollouts whose promoted version is still in the channel. They are in
// the order of the channels in metas.
func ListRejected(metas []v1beta2.ModuleReleaseMeta, rollouts []fleet.Rollout) (all []*fleet.Rollout) {
	byTrack := groupByTrack(rollouts)
	for i := range metas {
		module := metas[i].Spec.ModuleName
		for _, c := range metas[i].Spec.Channels {
			if r := findRejected(byTrack[Track{module, c.Channel}], c.Version); r != nil {
				all = append(all, r)
			}
		}
	}
	return all
}

// RejectionMessage returns a message about a version whose rollout r was stopped or rolled back.
func RejectionMessage(r *fleet.Rollout) string {
	what := "rolled it back"
	if r.Status.State == fleet.RolloutStopped {
		what = "stopped"
	}
	return fmt.Sprintf("version %s of module %s in channel %s: rollout %s %s: %s",
		r.Spec.To, r.Spec.Module, r.Spec.Channel, r.Name, what, r.Status.Message)
}
