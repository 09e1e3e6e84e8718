package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// The canary is a real runtime, whose agent runs the rollout's check. The check fails, so the runtime in the next wave
// must never get the version.
func TestAgentCheckDecidesRollout(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	canary := runtimeWith(t, f, "canary", map[string]string{"scaler": "1.7.0"})
	until(t, time.Minute, "the canary is labeled", func() (bool, string) {
		record, err := canary.Record(ctx)
		if err == nil {
			record.Labels["stage"] = "canary"
			err = f.Control.Update(ctx, record)
		}
		return err == nil, fmt.Sprint(err)
	})
	other, err := f.Simulate(ctx, fleet.NewKyma("other", "regular", "scaler"))
	must(t, err)
	untilSettled(t, other, "1.7.0")
	must(t, f.CreatePolicy(ctx, "scaler", stages(func(canaries, _ *v1alpha1.Wave) {
		canaries.Checks = []v1alpha1.Check{{
			Name: "settings-exist", Interval: metav1.Duration{Duration: 10 * time.Second}, SuccessThreshold: 1,
			FailureThreshold: 1,
			CEL: &v1alpha1.CELCheck{
				APIVersion: "v1", Kind: "ConfigMap", Namespace: v1beta2.RuntimeNamespace,
				Expression: `objects.exists(o, o.metadata.name == "scaler-works")`,
			},
		}}
	})))
	promote(t, f, "1.8.0")
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout is rolled back", rolledOut(v1alpha1.RolloutRolledBack)))
	rollout, err := f.Rollout(ctx, firstRollout)
	must(t, err)
	if !strings.Contains(rollout.Status.Message, "check settings-exist failed in canary") {
		t.Errorf("unexpected rollout message %q", rollout.Status.Message)
	}
	must(t, canary.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
	wantHistory(t, other, "1.7.0")

	must(t, canary.API.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "scaler-works"},
	}))
	ask(t, f, "rollout", "retry", firstRollout)
	must(t, f.UntilRollout(ctx, secondRollout, "the rollout succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
	must(t, canary.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	untilSettled(t, other, "1.8.0")
}
