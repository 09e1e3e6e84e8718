// Package rolloutactions changes the fields of a Rollout that operators control: it pauses, resumes, approves, aborts,
// undoes and retries. A Change edits a Rollout and returns a message about the effect; Apply writes it to the API
// server. The command line and the web page use the same changes.
package rolloutactions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// ErrNoApproval is returned for the approval of a wave that does not wait for one.
var ErrNoApproval = errors.New("asks for no approval")

// Change edits the spec of a rollout and returns a message about the effect. The error gives the reason why the rollout
// does not allow the change.
type Change func(*v1alpha1.Rollout) (string, error)

// Apply writes the change to the Rollout and returns the message about its effect.
func Apply(ctx context.Context, api client.Client, key client.ObjectKey, change Change) (string, error) {
	var told string
	// The publisher can write the status of the rollout at any time, which is a conflict.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		one := &v1alpha1.Rollout{}
		if err := api.Get(ctx, key, one); err != nil {
			return fmt.Errorf("read Rollout %s: %w", key, err)
		}
		before := one.DeepCopy()
		var err error
		if told, err = change(one); err != nil {
			return fmt.Errorf("rollout %s: %w", key.Name, err)
		}
		if err := api.Patch(ctx, one, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("change Rollout %s: %w", key, err)
		}
		return nil
	})
	return told, err
}

// Pause pauses or resumes a rollout.
func Pause(paused bool) Change {
	return func(r *v1alpha1.Rollout) (string, error) {
		if rollout.Finished(r.Status.State) {
			return "", hasEnded(r)
		}
		r.Spec.Paused = paused
		if paused {
			return "is paused: no further runtime gets version " + r.Spec.To, nil
		}
		return "goes on", nil
	}
}

// Waiting returns the waves that need an approval, by the spec or by their state, and do not have it yet.
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

// Approve approves a wave that needs an approval.
func Approve(wave string) Change {
	return func(r *v1alpha1.Rollout) (string, error) {
		waiting := Waiting(r.Spec, r.Status)
		switch {
		case rollout.Finished(r.Status.State):
			return "", hasEnded(r)
		case slices.Contains(r.Spec.ApprovedWaves, wave):
			return "has wave " + wave + " approved already", nil
		case !slices.Contains(waiting, wave):
			return "", fmt.Errorf("wave %q %w; those that do: %s", wave, ErrNoApproval, cmp.Or(strings.Join(waiting, ", "), "none"))
		}
		r.Spec.ApprovedWaves = append(r.Spec.ApprovedWaves, wave)
		return "may begin wave " + wave, nil
	}
}

// Abort stops a rollout permanently.
func Abort(r *v1alpha1.Rollout) (string, error) {
	if rollout.Finished(r.Status.State) || r.Status.State == v1alpha1.RolloutRollingBack {
		return "", hasEnded(r)
	}
	r.Spec.Abort = true
	return fmt.Sprintf("stops: those that have version %s keep it, nobody else gets it (undo gives them %s back)", r.Spec.To, r.Spec.From), nil
}

// Undo rolls back every runtime that the rollout updated, if it is the newest of all rollouts of its channel.
func Undo(all []v1alpha1.Rollout) Change {
	return func(r *v1alpha1.Rollout) (string, error) {
		switch newer := rollout.Newer(r, all); {
		case newer != "":
			return "", fmt.Errorf("rollout %s came after it: undo that", newer)
		case r.Status.State == v1alpha1.RolloutSuperseded, r.Status.State == v1alpha1.RolloutRollingBack, r.Status.State == v1alpha1.RolloutRolledBack:
			return "", hasEnded(r)
		}
		r.Spec.Undo = true
		return fmt.Sprintf("goes back: those it gave version %s get %s again", r.Spec.To, r.Spec.From), nil
	}
}

// Retry makes the publisher roll the same version out again, if it is the newest of
// all rollouts of its channel.
func Retry(all []v1alpha1.Rollout) Change {
	return func(r *v1alpha1.Rollout) (string, error) {
		switch newer := rollout.Newer(r, all); {
		case newer != "":
			return "", fmt.Errorf("rollout %s came after it: retry that", newer)
		case r.Status.State != v1alpha1.RolloutStopped && r.Status.State != v1alpha1.RolloutRolledBack:
			return "", fmt.Errorf("it is %s: only a Stopped or RolledBack rollout can be retried", r.Status.State)
		}
		r.Spec.Retry = true
		return fmt.Sprintf("is retried: a new Rollout begins with the first wave if channel %s has version %s", r.Spec.Channel, r.Spec.To), nil
	}
}

func hasEnded(r *v1alpha1.Rollout) error {
	return fmt.Errorf("it is %s already: %s", r.Status.State, r.Status.Message)
}
