package rollout

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// Change is a change of a Rollout that is emitted as a Kubernetes Event.
type Change struct{ Type, Reason, Note string }

// StartChanges returns the Change to emit for a new Rollout.
func StartChanges(r *fleet.Rollout) []Change {
	note := fmt.Sprintf("started the rollout of module %s from %s to %s in channel %s, by policy %s", r.Spec.Module,
		r.Spec.From, r.Spec.To, r.Spec.Channel, r.Spec.Policy)
	return []Change{{corev1.EventTypeNormal, fleet.ReasonRolloutBegun, note}}
}

// ChangesBetween returns the Changes to emit if a Rollout's status changes from before to after. Changes are emitted
// for a new state, for each started wave, and for each wave whose runtimes have proved that the version works.
func ChangesBetween(before, after fleet.RolloutStatus) []Change {
	var all []Change
	for i, w := range after.Waves {
		was := fleet.WaveStatus{}
		if i < len(before.Waves) {
			was = before.Waves[i]
		}
		if w.StartedAt != nil && was.StartedAt == nil && w.Total > 0 {
			all = append(all, Change{
				corev1.EventTypeNormal, fleet.ReasonWaveStarted,
				fmt.Sprintf("wave %s started with %d runtimes", w.Name, w.Total),
			})
		}
		if w.ProvenAt != nil && was.ProvenAt == nil && w.Total > 0 {
			all = append(all, Change{
				corev1.EventTypeNormal, fleet.ReasonWaveProven,
				fmt.Sprintf("wave %s is proven: %d of %d runtimes are updated, %d failed, %d deferred", w.Name,
					w.Updated, w.Total, w.Failed, w.Deferred),
			})
		}
	}
	if after.State == before.State || before.State == "" && after.State == fleet.RolloutProgressing {
		return all
	}
	kind := corev1.EventTypeNormal
	switch after.State {
	case fleet.RolloutStopped, fleet.RolloutRollingBack:
		kind = corev1.EventTypeWarning
	}
	return append(all, Change{kind, after.State.Reason(), after.Message})
}
