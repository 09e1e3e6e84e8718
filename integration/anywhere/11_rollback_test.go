package anywhere

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

// A version that does not work is taken back by its rollout, and the runtime runs what it ran before.
func TestBrokenVersionStopsItsRolloutAndGoesBack(t *testing.T) {
	scene(t)
	ctx, r := t.Context(), stage.berlin
	well(t, r)
	good := stage.promoted
	undo(forgetRollouts)
	must(t, stage.fleet.Police(ctx, samplemodule.Module, v1alpha1.Course{Waves: []v1alpha1.Wave{{
		Name: "all", Percent: new(int32(100)), Deadline: metav1.Duration{Duration: 10 * time.Second},
		FailsOn: []v1alpha1.Symptom{v1alpha1.SymptomError, v1alpha1.SymptomNotReady},
	}}}))

	must(t, release(ctx, samplemodule.VersionBroken))
	until(t, "the rollout took the version back", func() (bool, string) {
		rollout, err := stage.fleet.Rollout(ctx, "beacon-regular-1")
		if err != nil {
			return false, err.Error()
		}
		return rollout.Status.State == v1alpha1.RolloutRolledBack && rollout.Status.Reverted > 0, rollout.Status.Message
	})
	must(t, r.UntilState(ctx, samplemodule.Module, good, v1beta2.StateReady))
	must(t, release(ctx, good))
	untilRunning(t, r, promotedImage())
}

// forgetRollouts leaves the other scenarios without policies.
func forgetRollouts(ctx context.Context) error {
	return errors.Join(
		stage.fleet.Control.DeleteAllOf(ctx, &v1alpha1.RolloutPolicy{}, client.InNamespace(sample.Namespace)),
		stage.fleet.Control.DeleteAllOf(ctx, &v1alpha1.Rollout{}, client.InNamespace(sample.Namespace)),
	)
}
