package kindscenario

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

const labelStage = "kyma-pull.dev/stage"

// failingJob declares a check that runs the operator's image as a Job. The Job's pod does not have a token for the API
// server, so the operator logs an error and exits.
const failingJob = `
checks:
- name: conformance
  failureThreshold: 1
  timeout: 1m
  job:
    namespace: kyma-system
    template:
      template:
        spec:
          automountServiceAccountToken: false
          securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
          containers:
          - name: operator
            image: %s
            imagePullPolicy: IfNotPresent
            securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// Only kind clusters run Jobs and return pod logs.
func TestFailedJobCheckRollsBackTheCanary(t *testing.T) {
	startScenario(t)
	ctx, canary, other := t.Context(), stage.berlin, stage.tokyo
	untilPromoted(t, canary)
	untilPromoted(t, other)
	before := stage.promoted
	setStage(t, "canary")
	must(t, stage.fleet.CreatePolicy(ctx, samplemodule.Module, v1alpha1.Course{Waves: []v1alpha1.Wave{
		{
			Name:     "canary",
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{labelStage: "canary"}},
			Checks:   []v1alpha1.Check{{Name: "conformance"}},
		},
		{Name: "rest", Percent: new(int32(100))},
	}}))
	addCleanup(deleteRollouts)
	stage.patch++
	version := samplemodule.Patch(fmt.Sprintf("1.1.%d", stage.patch))
	version.Resources = append(version.Resources, sample.Resource{
		Name: "checks", Type: "yaml", MediaType: "application/yaml",
		Content: fmt.Appendf(nil, failingJob, samplemodule.Image(samplemodule.VersionBetter)),
	})
	must(t, stage.fleet.Offer(ctx, version))
	must(t, release(ctx, version.Version))

	name := samplemodule.Module + "-regular-1"
	must(t, stage.fleet.UntilRollout(ctx, name, "it is rolled back", func(s v1alpha1.RolloutStatus) bool {
		return s.State == v1alpha1.RolloutRolledBack
	}))
	text, err := stage.fleet.Ask(ctx, "rollout", "show", name)
	if err != nil || !strings.Contains(text, "check conformance failed in "+canary.ID) ||
		!strings.Contains(text, "operator: ") {
		t.Errorf("rollout show: got error %v, want check conformance and the log of its Pod in\n%s", err, text)
	}
	must(t, canary.UntilState(ctx, samplemodule.Module, before, v1beta2.StateReady))
	must(t, other.UntilState(ctx, samplemodule.Module, before, v1beta2.StateReady))
	// When the cleanup deletes the policy, the runtimes get the rejected version, which works except for its check. Do not
	// change the channel here, because the publisher could process that change after the deletion.
}

// setStage labels runtime berlin's Kyma in the control plane until the scenario ends.
func setStage(t *testing.T, value string) {
	t.Helper()
	set := func(ctx context.Context, value string) error {
		kyma, err := stage.berlin.Record(ctx)
		if err != nil {
			return err
		}
		changed := kyma.DeepCopy()
		if changed.Labels == nil {
			changed.Labels = map[string]string{}
		}
		changed.Labels[labelStage] = value
		if value == "" {
			delete(changed.Labels, labelStage)
		}
		return stage.fleet.Control.Patch(ctx, changed, client.MergeFrom(kyma))
	}
	must(t, set(t.Context(), value))
	addCleanup(func(ctx context.Context) error { return set(ctx, "") })
}
