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

// ErrNoApproval is the error of an approval for a wave that does not wait for one.
var ErrNoApproval = errors.New("does not wait for an approval")

// Rollout is an action on a Rollout.
type Rollout = Action[v1alpha1.Rollout]

// Pause pauses or resumes a rollout.
func Pause(paused bool) Rollout {
	reason := "Resumed"
	if paused {
		reason = "Paused"
	}
	return Rollout{reason, func(r *v1alpha1.Rollout) (string, error) {
		if rollout.Finished(r.Status.State) {
			return "", hasEnded(r)
		}
		r.Spec.Paused = paused
		if paused {
			return "is paused: no further runtime gets version " + r.Spec.To, nil
		}
		return "is resumed", nil
	}}
}

// Waiting returns the waves that require an approval, by their spec or their state, and do not have it yet.
func Waiting(spec v1alpha1.RolloutSpec, status v1alpha1.RolloutStatus) []string {
	var waiting []string
	for i, w := range spec.Waves {
		asks := w.Approval || i < len(status.Waves) && status.Waves[i].State == v1alpha1.WaveWaiting
		if asks && !slices.Contains(spec.ApprovedWaves, w.Name) {
			waiting = append(waiting, w.Name)
		}
	}
	return waiting
}

// Approve approves a wave that waits for an approval.
func Approve(wave string) Rollout {
	return Rollout{"WaveApproved", func(r *v1alpha1.Rollout) (string, error) {
		waiting := Waiting(r.Spec, r.Status)
		switch {
		case rollout.Finished(r.Status.State):
			return "", hasEnded(r)
		case slices.Contains(r.Spec.ApprovedWaves, wave):
			return "has already approved wave " + wave, nil
		case !slices.Contains(waiting, wave):
			return "",
				fmt.Errorf("wave %q %w; waiting waves: %s", wave, ErrNoApproval,
					cmp.Or(strings.Join(waiting, ", "), "none"))
		}
		r.Spec.ApprovedWaves = append(r.Spec.ApprovedWaves, wave)
		return "may begin wave " + wave, nil
	}}
}

// Abort stops a rollout permanently.
func Abort() Rollout {
	return Rollout{"Aborted", func(r *v1alpha1.Rollout) (string, error) {
		if rollout.Finished(r.Status.State) || r.Status.State == v1alpha1.RolloutRollingBack {
			return "", hasEnded(r)
		}
		r.Spec.Abort = true
		return fmt.Sprintf(
			"is aborted: updated runtimes keep version %s, no other runtime gets it (undo rolls them back to %s)",
			r.Spec.To, r.Spec.From), nil
	}}
}

// Undo rolls back every runtime that a rollout updated. It returns an error if a newer rollout of the same module and
// channel is among all.
func Undo(all []v1alpha1.Rollout) Rollout {
	return Rollout{"Undone", func(r *v1alpha1.Rollout) (string, error) {
		switch newer := rollout.Newer(r, all); {
		case newer != "":
			return "", fmt.Errorf("rollout %s is newer: undo that one instead", newer)
		case r.Status.State == v1alpha1.RolloutSuperseded,
			r.Status.State == v1alpha1.RolloutRollingBack,
			r.Status.State == v1alpha1.RolloutRolledBack:
			return "", hasEnded(r)
		}
		r.Spec.Undo = true
		return fmt.Sprintf("is undone: runtimes that it updated to version %s go back to %s", r.Spec.To, r.Spec.From),
			nil
	}}
}

// Retry makes the publisher roll out the version of a stopped or rolled back rollout again. It returns an error if a
// newer rollout of the same module and channel is among all.
func Retry(all []v1alpha1.Rollout) Rollout {
	return Rollout{"Retried", func(r *v1alpha1.Rollout) (string, error) {
		switch newer := rollout.Newer(r, all); {
		case newer != "":
			return "", fmt.Errorf("rollout %s is newer: retry that one instead", newer)
		case r.Status.State != v1alpha1.RolloutStopped && r.Status.State != v1alpha1.RolloutRolledBack:
			return "", fmt.Errorf("it is %s: only a Stopped or RolledBack rollout can be retried", r.Status.State)
		}
		r.Spec.Retry = true
		return fmt.Sprintf("is retried: a new Rollout begins with the first wave if channel %s has version %s",
			r.Spec.Channel, r.Spec.To), nil
	}}
}

func hasEnded(r *v1alpha1.Rollout) error {
	return fmt.Errorf("it is already %s: %s", r.Status.State, r.Status.Message)
}
