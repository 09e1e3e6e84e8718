package try

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// labelStage is the Kyma label that the RolloutPolicy's waves select.
const labelStage = "stage"

// twoWaves returns two waves: the canary, then the other runtime. A failure rolls back the version.
func twoWaves(readyWithin time.Duration) v1alpha1.Course {
	deadline := metav1.Duration{Duration: readyWithin}
	all := int32(100)
	return v1alpha1.Course{
		OnFailure: v1alpha1.OnFailureRollback,
		Waves: []v1alpha1.Wave{
			{
				Name: "canary", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{labelStage: canary}},
				Deadline: deadline,
			},
			{Name: "others", Percent: &all, Deadline: deadline},
		},
	}
}

func (a *attempt) upgrade(ctx context.Context) error {
	published, err := a.published(ctx, a.canary)
	if err != nil {
		return err
	}
	if err := a.promote(ctx, a.module.to); err != nil {
		return err
	}
	if err := a.untilBegun(ctx, ""); err != nil {
		return err
	}
	err = fleet.Until(ctx, a.options.ReadyWithin, "the canary has a bundle with "+a.module.to, func() (bool, string) {
		now, err := a.published(ctx, a.canary)
		return err == nil && now != published, fmt.Sprint(now, err)
	})
	if err != nil {
		return err
	}
	if err := a.canary.CrashAgent(); err != nil {
		return err
	}
	return a.rolledOut(ctx)
}

// published returns the digest of the runtime's newest bundle.
func (a *attempt) published(ctx context.Context, r *fleet.Runtime) (string, error) {
	kyma, err := r.Record(ctx)
	if err != nil {
		return "", err
	}
	if kyma.Status.Runtime == nil || kyma.Status.Runtime.Published == nil {
		return "", fmt.Errorf("no bundle was published for %s", r.ID)
	}
	return kyma.Status.Runtime.Published.Digest, nil
}

// untilBegun waits until a new Rollout exists. The argument earlier is the previous Rollout's UID.
func (a *attempt) untilBegun(ctx context.Context, earlier string) error {
	return fleet.Until(ctx, a.options.ReadyWithin, "a rollout of "+a.module.to+" begins", func() (bool, string) {
		var all v1alpha1.RolloutList
		if err := a.fleet.Control.List(ctx, &all, client.InNamespace(sample.Namespace)); err != nil {
			return false, err.Error()
		}
		for _, r := range all.Items {
			if string(r.UID) != earlier && r.Spec.Module == a.module.name && r.Spec.To == a.module.to {
				a.rollout = r.Name
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d rollouts", len(all.Items))
	})
}

// rolledOut waits until the rollout has succeeded.
func (a *attempt) rolledOut(ctx context.Context) error {
	status, err := a.waitEnded(ctx)
	if err != nil {
		return err
	}
	if status.State != v1alpha1.RolloutSucceeded {
		return a.failureReason(ctx, status)
	}
	a.after, err = a.waitInstalled(ctx, a.module.to)
	return err
}

// waitEnded waits until the rollout has ended or paused.
func (a *attempt) waitEnded(ctx context.Context) (v1alpha1.RolloutStatus, error) {
	var status v1alpha1.RolloutStatus
	// The limit allows ReadyWithin for each wave and for a rollback.
	err := fleet.Until(ctx, 3*a.options.ReadyWithin+time.Minute, "rollout "+a.rollout+" ends", func() (bool, string) {
		rollout, err := a.fleet.Rollout(ctx, a.rollout)
		if err != nil {
			return false, err.Error()
		}
		status = rollout.Status
		switch status.State {
		case v1alpha1.RolloutSucceeded, v1alpha1.RolloutRolledBack, v1alpha1.RolloutStopped, v1alpha1.RolloutSuperseded,
			v1alpha1.RolloutWaiting:
			return true, ""
		default:
			return false, fmt.Sprintf("%s: %s", status.State, status.Message)
		}
	})
	return status, err
}

// failureReason returns an error with the reason why the rollout did not succeed, and with the result of the rollback.
func (a *attempt) failureReason(ctx context.Context, status v1alpha1.RolloutStatus) error {
	why := fmt.Sprintf("rollout %s is %s, %d of %d runtimes rolled back: %s", a.rollout, status.State, status.Reverted,
		status.Total, status.Message)
	for _, f := range status.Failures {
		why += fmt.Sprintf("\n%s, wave %s: %s", f.Runtime, f.Wave, strings.TrimSpace(f.Reason))
	}
	if _, err := a.waitInstalled(ctx, a.module.from); err != nil {
		return fmt.Errorf("%s\nthe rollback to %s failed: %w", why, a.module.from, err)
	}
	return fmt.Errorf("%s\nboth runtimes are Ready with %s", why, a.module.from)
}

func (a *attempt) undo(ctx context.Context) error {
	if output, err := a.fleet.Ask(ctx, "rollout", "undo", a.rollout); err != nil {
		return fmt.Errorf("undo rollout %s: %w\n%s", a.rollout, err, output)
	}
	err := fleet.Until(ctx, 2*a.options.ReadyWithin, "rollout "+a.rollout+" is undone", func() (bool, string) {
		rollout, err := a.fleet.Rollout(ctx, a.rollout)
		if err != nil {
			return false, err.Error()
		}
		return rollout.Status.State == v1alpha1.RolloutRolledBack,
			fmt.Sprintf("%s: %s", rollout.Status.State, rollout.Status.Message)
	})
	if err != nil {
		return err
	}
	objects, err := a.waitInstalled(ctx, a.module.from)
	if err != nil {
		return err
	}
	if missing := withoutObjects(a.before, objects); len(missing) > 0 {
		return fmt.Errorf("objects of %s were not restored: %s", a.module.from, names(missing))
	}
	return a.waitGone(ctx, withoutObjects(a.after, a.before))
}

// waitForRetry deletes the Rollout of the newer version and waits until the next Rollout has succeeded.
func (a *attempt) waitForRetry(ctx context.Context) error {
	rollout, err := a.fleet.Rollout(ctx, a.rollout)
	if err != nil {
		return err
	}
	if err := a.fleet.Control.Delete(ctx, rollout); err != nil {
		return fmt.Errorf("delete rollout %s: %w", a.rollout, err)
	}
	if err := a.untilBegun(ctx, string(rollout.UID)); err != nil {
		return err
	}
	if err := a.rolledOut(ctx); err != nil {
		return err
	}
	return a.pruned(ctx)
}

// isReady reports whether the Manifest in the runtime is Ready. It reads the runtime, because the status in the control
// plane can be outdated.
func isReady(ctx context.Context, r *fleet.Runtime, module string) (bool, string) {
	manifest := &v1beta2.Manifest{}
	err := r.API.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: module}, manifest)
	return err == nil && manifest.Status.State == v1beta2.StateReady, fmt.Sprint(manifest.Status.State, err)
}
