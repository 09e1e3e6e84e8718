package status

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func TestWhyCommandListsChecks(t *testing.T) {
	kyma := kymaWith("Ready", []v1beta2.ModuleStatus{{Name: "keda", State: v1beta2.StateReady}})
	kyma.Status.Runtime.Published = &v1beta2.PublishedBundle{Given: map[string]v1beta2.GivenVersion{
		"keda": {Rollout: "keda-regular-1", Checks: []v1beta2.CheckOutcome{
			{Name: "errors", Result: v1beta2.CheckPassed},
			{Name: "latency", Result: v1beta2.CheckInconclusive, Value: "0.2", Before: "0.1", Message: "no data"},
		}},
		"mail": {Checks: []v1beta2.CheckOutcome{{Name: "sent", Result: v1beta2.CheckFailed}}},
	}}
	for module, want := range map[string][]string{"keda": {"errors", "latency"}, "": {"latency", "sent"}} {
		answer, err := explainRuntime(kyma, module, fleet.Rollouts{}, noon)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range answer.Checks {
			names = append(names, c.Name)
		}
		var out bytes.Buffer
		answer.draw(&out)
		if !slices.Equal(names, want) || !strings.Contains(out.String(), "0.2, 0.1 before the upgrade  no data") {
			t.Errorf("module %q: got checks %q, want %q, in\n%s", module, names, want, out.String())
		}
	}
}
