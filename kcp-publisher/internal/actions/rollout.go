package actions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// ErrNoApproval means that a wave cannot be approved, because it does not wait for approval.
var ErrNoApproval = errors.New("does not wait for approval")

// Rollout is an action on a Rollout.
type Rollout = Action[v1alpha1.Rollout]

// Pause returns the action that pauses a rollout, or resumes the rollout if paused is false.
func Pause(paused bool) Rollout {
	reason := "Resumed"
	if paused {
		reason = "Paused"
	}
	return Rollout{reason, func(r *v1alpha1.Rollout) (string, error) {
		if rollout.IsFinished(r.Status.State) {
			return "", hasEnded(r)
		}
		r.Spec.Paused = paused
		switch {
		case paused && rollout.IsRemoval(r.Spec):
			return "is paused: no further runtimes lose the module", nil
		case paused:
			return "is paused: no further runtimes are updated to version " + r.Spec.To, nil
		}
		return "is resumed", nil
	}}
}

// WaitingWaves returns the names of the waves that an operator can approve: unapproved waves that require an approval,
// and waves that already wait for one.
func WaitingWaves(spec v1alpha1.RolloutSpec, status v1alpha1.RolloutStatus) []string {
	var waiting []string
	for i, w := range spec.Waves {
		if w.Approval && !slices.Contains(spec.ApprovedWaves, w.Name) ||
			i < len(status.Waves) && rollout.AwaitsApproval(spec, status.Waves[i]) {
			waiting = append(waiting, w.Name)
		}
	}
	return waiting
}

// Approve approves a wave that waits for approval. If the wave waits for deferred runtimes, Approve continues without
// them.
func Approve(wave string) Rollout {
	return Rollout{"WaveApproved", func(r *v1alpha1.Rollout) (string, error) {
		waiting := WaitingWaves(r.Spec, r.Status)
		switch {
		case rollout.IsFinished(r.Status.State):
			return "", hasEnded(r)
		case !slices.Contains(waiting, wave) &&
			(slices.Contains(r.Spec.ApprovedWaves, wave) || slices.Contains(r.Spec.ApprovedDeferredWaves, wave)):
			return "already has an approval for wave " + wave, nil
		case !slices.Contains(waiting, wave):
			return "",
				fmt.Errorf("wave %q %w; waves that wait: %s", wave, ErrNoApproval,
					cmp.Or(strings.Join(waiting, ", "), "none"))
		}
		if at := slices.IndexFunc(r.Status.Waves, func(s v1alpha1.WaveStatus) bool {
			return s.Name == wave && s.WaitsForDeferred && rollout.AwaitsApproval(r.Spec, s)
		}); at >= 0 {
			r.Spec.ApprovedDeferredWaves = append(r.Spec.ApprovedDeferredWaves, wave)
			return fmt.Sprintf("can continue after wave %s without its %d deferred runtimes", wave,
				r.Status.Waves[at].Deferred), nil
		}
		r.Spec.ApprovedWaves = append(r.Spec.ApprovedWaves, wave)
		return "can start wave " + wave, nil
	}}
}

// Abort stops a rollout permanently.
func Abort() Rollout {
	return Rollout{"Aborted", func(r *v1alpha1.Rollout) (string, error) {
		if rollout.IsFinished(r.Status.State) || r.Status.State == v1alpha1.RolloutRollingBack {
			return "", hasEnded(r)
		}
		r.Spec.Abort = true
		if rollout.IsRemoval(r.Spec) {
			return "is aborted: no other runtimes lose the module (undo restores the module)", nil
		}
		return fmt.Sprintf(
			"is aborted: updated runtimes keep version %s, and no other runtimes are updated (undo rolls back to %s)",
			r.Spec.To, r.Spec.From), nil
	}}
}

// Undo rolls back every runtime that the rollout or one of its predecessors updated. The parameter all lists the
// existing rollouts. The action fails if one of them is newer and has the same module and channel.
func Undo(all []v1alpha1.Rollout) Rollout {
	return Rollout{"Undone", func(r *v1alpha1.Rollout) (string, error) {
		switch newer := rollout.FindNewer(r, all); {
		case newer != "":
			return "", fmt.Errorf("rollout %s is newer: undo that rollout instead", newer)
		case r.Status.State == v1alpha1.RolloutSuperseded,
			r.Status.State == v1alpha1.RolloutRollingBack,
			r.Status.State == v1alpha1.RolloutRolledBack:
			return "", hasEnded(r)
		}
		r.Spec.Undo = true
		undone := "the rollout"
		if earlier := r.Spec.Predecessors; len(earlier) > 0 {
			undone += " or one of its predecessors (" + strings.Join(earlier, ", ") + ")"
		}
		if rollout.IsRemoval(r.Spec) {
			return "is undone: runtimes from which " + undone + " removed the module get it again", nil
		}
		return fmt.Sprintf("is undone: runtimes that %s updated to version %s are rolled back to %s", undone, r.Spec.To,
			r.Spec.From), nil
	}}
}

// Retry repeats a rollout that was stopped or rolled back. The parameter all lists the existing rollouts. The action
// fails if one of them is newer and has the same module and channel.
func Retry(all []v1alpha1.Rollout) Rollout {
	return Rollout{"Retried", func(r *v1alpha1.Rollout) (string, error) {
		switch newer := rollout.FindNewer(r, all); {
		case newer != "":
			return "", fmt.Errorf("rollout %s is newer: retry that rollout instead", newer)
		case r.Status.State != v1alpha1.RolloutStopped && r.Status.State != v1alpha1.RolloutRolledBack:
			return "", fmt.Errorf("the rollout is %s: only Stopped and RolledBack rollouts can be retried",
				r.Status.State)
		}
		r.Spec.Retry = true
		if rollout.IsRemoval(r.Spec) {
			return "is retried: a new Rollout starts with the first wave if the catalog still removes the module", nil
		}
		return fmt.Sprintf("is retried: a new Rollout starts with the first wave if channel %s still has version %s",
			r.Spec.Channel, r.Spec.To), nil
	}}
}

func hasEnded(r *v1alpha1.Rollout) error {
	return fmt.Errorf("the rollout is already %s: %s", r.Status.State, r.Status.Message)
}
