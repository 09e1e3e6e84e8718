package kindscenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

// deleteRollouts deletes all rollouts and their policies.
func deleteRollouts(ctx context.Context) error {
	all := client.InNamespace(sample.Namespace)
	return errors.Join(stage.fleet.Control.DeleteAllOf(ctx, &v1alpha1.RolloutPolicy{}, all),
		stage.fleet.Control.DeleteAllOf(ctx, &v1alpha1.Rollout{}, all))
}

// Only kind clusters run pods, so the other test clusters have no pods with a phase and an image ID.
func TestPodCheckPassesInARollout(t *testing.T) {
	startScenario(t)
	ctx, r := t.Context(), stage.berlin
	untilPromoted(t, r)
	must(t, stage.fleet.CreatePolicy(ctx, samplemodule.Module, v1alpha1.Course{Waves: []v1alpha1.Wave{{
		Name: "all", Percent: new(int32(100)),
		Checks: []v1alpha1.Check{{
			Name: "pods-run", Interval: metav1.Duration{Duration: 10 * time.Second}, SuccessThreshold: 2,
			CEL: &v1alpha1.CELCheck{
				APIVersion: "v1", Kind: "Pod", Namespace: v1beta2.RuntimeNamespace,
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": samplemodule.Operator}},
				Expression: fmt.Sprintf(
					"size(objects) > 0 && objects.all(p, p.status.phase == 'Running' && p.spec.containers[0].image "+
						"== %q)",
					samplemodule.Image(samplemodule.VersionBetter),
				),
			},
		}},
	}}}))
	addCleanup(deleteRollouts)
	version := promote(t)
	name := samplemodule.Module + "-regular-1"
	must(t, stage.fleet.UntilRollout(ctx, name, "its check is Passed", func(s v1alpha1.RolloutStatus) bool {
		return s.State == v1alpha1.RolloutSucceeded && len(s.Waves) == 1 && len(s.Waves[0].Checks) == 1 &&
			s.Waves[0].Checks[0].Passed == 1
	}))
	must(t, r.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))
	text, err := stage.fleet.Ask(ctx, "rollout", "show", name)
	if err != nil || !strings.Contains(text, "pods-run") {
		t.Errorf("rollout show: got error %v, want check pods-run in\n%s", err, text)
	}
}
