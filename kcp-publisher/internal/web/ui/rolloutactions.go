package ui

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

type pageAction struct {
	Name, Title string
	// Wave is the wave to approve, or empty for other actions.
	Wave string
	// Runtimes is the number of affected runtimes.
	Runtimes int32
	action   actions.Rollout
	// effect describes the action's effect. It is the end of a sentence that starts with the rollout's name.
	effect string
}

// rolloutOffers applies each action to a copy of the rollout, to find the actions that are possible in its state.
func (r pageRequest) rolloutOffers(one *fleet.Rollout) []pageAction {
	s := one.Status
	candidates := []pageAction{
		{Name: "pause", Title: "Pause rollout", Runtimes: s.Total - s.Updated, action: actions.Pause(true)},
	}
	if one.Spec.Paused {
		candidates = []pageAction{
			{Name: "resume", Title: "Resume rollout", Runtimes: s.Total - s.Updated, action: actions.Pause(false)},
		}
	}
	for _, wave := range actions.WaitingWaves(one.Spec, s) {
		approve := pageAction{
			Name:     "approve",
			Title:    "Approve wave " + cleanLine(60, wave),
			Wave:     wave,
			Runtimes: waveOf(wave, s.Waves).Total,
			action:   actions.Approve(wave),
		}
		if waits := waveOf(wave, s.Waves); waits.WaitsForDeferred {
			approve.Title, approve.Runtimes = "Continue without deferred runtimes of wave "+cleanLine(60, wave), waits.Deferred
		}
		candidates = append(candidates, approve)
	}
	rivals := relatedRollouts(one, r.fleet.Rollouts)
	candidates = append(candidates,
		pageAction{Name: "abort", Title: "Abort rollout", Runtimes: s.Total - s.Updated, action: actions.Abort()},
		pageAction{Name: "undo", Title: "Undo rollout", Runtimes: countUndone(one, rivals), action: actions.Undo(rivals)},
		pageAction{Name: "retry", Title: "Retry rollout", Runtimes: s.Total, action: actions.Retry(rivals)})
	var possible []pageAction
	for _, o := range candidates {
		object := rolloutObject(one)
		if effect, err := o.action.Change(&object); err == nil {
			o.effect = effect
			possible = append(possible, o)
		}
	}
	return possible
}

// countUndone returns the number of runtimes that a rollout and its predecessors updated. It omits predecessors that
// were rolled back.
func countUndone(one *fleet.Rollout, related []v1alpha1.Rollout) int32 {
	count := one.Status.Updated
	for i := range related {
		before := &related[i]
		switch before.Status.State {
		case v1alpha1.RolloutStopped, v1alpha1.RolloutSuperseded:
			if slices.Contains(one.Spec.Predecessors, before.Name) {
				count += before.Status.Updated
			}
		}
	}
	return count
}

// confirmedAction returns an action that fails if its effect differs from the effect that the viewer confirmed. The
// rollout can change after the confirmation.
func (o pageAction) confirmedAction() actions.Rollout {
	return actions.Rollout{Reason: o.action.Reason, Change: func(r *v1alpha1.Rollout) (string, error) {
		effect, err := o.action.Change(r)
		if err == nil && effect != o.effect {
			return "", fmt.Errorf("the rollout changed, so the action would have a different effect: the rollout %s", effect)
		}
		return effect, err
	}}
}

func waveOf(name string, all []v1alpha1.WaveStatus) v1alpha1.WaveStatus {
	for _, w := range all {
		if w.Name == name {
			return w
		}
	}
	return v1alpha1.WaveStatus{}
}

func rolloutObject(r *fleet.Rollout) v1alpha1.Rollout {
	return v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name},
		Spec:       *r.Spec.DeepCopy(),
		Status:     *r.Status.DeepCopy(),
	}
}

// relatedRollouts returns the rollouts of the same module and channel. They must not be modified.
func relatedRollouts(one *fleet.Rollout, all []fleet.Rollout) []v1alpha1.Rollout {
	var rivals []v1alpha1.Rollout
	for i := range all {
		if r := &all[i]; r.Spec.Module == one.Spec.Module && r.Spec.Channel == one.Spec.Channel &&
			(r.Spec.To == v1alpha1.VersionRemoved) == (one.Spec.To == v1alpha1.VersionRemoved) {
			rivals = append(rivals, v1alpha1.Rollout{
				ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}, Spec: r.Spec, Status: r.Status,
			})
		}
	}
	return rivals
}

func (r pageRequest) findRollout() *fleet.Rollout {
	for i := range r.fleet.Rollouts {
		if r.fleet.Rollouts[i].Name == r.PathValue("name") {
			return &r.fleet.Rollouts[i]
		}
	}
	return nil
}
