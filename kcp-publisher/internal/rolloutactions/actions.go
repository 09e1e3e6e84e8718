// Package rolloutactions changes what people may change of a rollout: it is paused, resumed, approved, aborted and
// undone. A change goes over the Rollout as it is and says what follows; Apply writes it. The command line and the web
// page use the same.
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

// ErrNoApproval says that a wave was approved that asks for no approval.
var ErrNoApproval = errors.New("asks for no approval")

// Change changes the spec of a rollout and returns what follows from it. An error says why it may not be changed so.
type Change func(*v1alpha1.Rollout) (string, error)

// Apply writes the change to the Rollout and returns what follows from it.
func Apply(ctx context.Context, api client.Client, key client.ObjectKey, change Change) (string, error) {
	var told string
	// The publisher writes the status of a rollout at any time.
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

// Pause pauses a rollout, or lets it go on.
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

// Waiting returns the waves that ask for an approval, by the spec or as they stand, and have none yet.
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

// Approve lets a wave begin that asks for approval.
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

// Abort stops a rollout for good.
func Abort(r *v1alpha1.Rollout) (string, error) {
	if rollout.Finished(r.Status.State) || r.Status.State == v1alpha1.RolloutRollingBack {
		return "", hasEnded(r)
	}
	r.Spec.Abort = true
	return fmt.Sprintf("stops: those that have version %s keep it, nobody else gets it (undo gives them %s back)", r.Spec.To, r.Spec.From), nil
}

// Undo rolls back every runtime that a rollout updated, unless one of all rollouts came after it.
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

func hasEnded(r *v1alpha1.Rollout) error {
	return fmt.Errorf("it is %s already: %s", r.Status.State, r.Status.Message)
}
