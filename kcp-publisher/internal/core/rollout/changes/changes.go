// Package changes decides which Kubernetes Events the publisher emits for a Rollout. It does not perform I/O.
package changes

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Change is a change to a Rollout that is emitted as a Kubernetes Event.
type Change struct{ Type, Reason, Note string }

// Start returns the Change to emit for a new Rollout.
func Start(r *fleet.Rollout) []Change {
	note := fmt.Sprintf("started the rollout of module %s from %s to %s", r.Spec.Module, r.Spec.From, r.Spec.To)
	if r.Spec.Channel != "" {
		note += " in channel " + r.Spec.Channel
	}
	note += ", by policy " + r.Spec.Policy
	return []Change{{corev1.EventTypeNormal, fleet.ReasonRolloutBegun, note}}
}

// Between returns the Changes to emit if a Rollout's status changes from before to after. Changes are emitted for a new
// state, for each started wave, and for each wave whose runtimes have proved that the version works. A Change is also
// emitted for each check that failed in more runtimes without exceeding maxFailures.
func Between(before, after fleet.RolloutStatus) []Change {
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
	if after.State != fleet.RolloutStopped && after.State != fleet.RolloutRollingBack {
		all = append(all, failedChecks(before, after)...) // Stopped and RollingBack have a message with the checks
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

// maxListed limits the runtimes in the message about a check.
const maxListed = 5

// failedChecks returns a Change for each check of a wave that failed in more runtimes than before.
func failedChecks(before, after fleet.RolloutStatus) (all []Change) {
	failed := map[[2]string]int32{}
	for _, w := range before.Waves {
		for _, c := range w.Checks {
			failed[[2]string{w.Name, c.Name}] = c.Failed
		}
	}
	for _, w := range after.Waves {
		for _, c := range w.Checks {
			if c.Failed <= failed[[2]string{w.Name, c.Name}] {
				continue
			}
			note := fmt.Sprintf("check %s failed in %d of %d runtimes in wave %s, which maxFailures allows", c.Name,
				c.Failed, w.Total, w.Name)
			if listed := failuresOf(after, w.Name, c.Name); len(listed) > 0 {
				note += ": " + strings.Join(listed, ", ")
				if more := int(c.Failed) - len(listed); more > 0 {
					note += fmt.Sprintf(" and %d more", more)
				}
			}
			all = append(all, Change{corev1.EventTypeWarning, fleet.ReasonCheckFailed, note})
		}
	}
	return all
}

// failuresOf describes at most maxListed of a wave's runtimes that failed because of a check.
func failuresOf(status fleet.RolloutStatus, wave, check string) (all []string) {
	repeated := "check " + check + " is " + string(v1beta2.CheckFailed) // the note already contains the name
	for _, f := range status.Failures {
		if f.Check == check && f.Wave == wave && len(all) < maxListed {
			all = append(all, f.Runtime+" ("+strings.TrimPrefix(strings.TrimPrefix(f.Reason, repeated), ": ")+")")
		}
	}
	return all
}
