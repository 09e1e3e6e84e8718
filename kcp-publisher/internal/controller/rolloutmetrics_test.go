package controller

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestRolloutMetricsCountOnlyRuntimesInActiveRollouts(t *testing.T) {
	underWay := &fleet.Rollout{Spec: fleet.RolloutSpec{Module: "keda", Channel: "regular"}}
	underWay.Status = fleet.RolloutStatus{
		State: fleet.RolloutProgressing, Waves: []fleet.WaveStatus{
			{Name: "canaries", Total: 10, Updated: 4, InFlight: 3, Failed: 1},
		},
	}
	setRolloutMetrics([]*fleet.Rollout{underWay})
	want := map[string]float64{"updated": 4, "in-flight": 3, "failed": 1, "deferred": 0, "waiting": 2}
	got := series(t, "kyma_pull_publisher_rollout_runtimes")
	for state, count := range want {
		if got["regular/keda/"+state+"/canaries"] != count {
			t.Errorf("%s: got %v, want %v", state, got, count)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got series %v, want %v", got, want)
	}
	over := underWay.DeepCopy()
	over.Status.State = fleet.RolloutSucceeded
	setRolloutMetrics([]*fleet.Rollout{over})
	if got := series(t, "kyma_pull_publisher_rollout_runtimes"); len(got) != 0 {
		t.Errorf("a finished rollout still has series %v", got)
	}
	if got := series(t, "kyma_pull_publisher_rollouts"); len(got) != 1 || got["Succeeded"] != 1 {
		t.Errorf("got rollouts by state %v, want one Succeeded", got)
	}
}

func TestCheckMetricsCountRuntimesInAllWaves(t *testing.T) {
	r := &fleet.Rollout{Spec: fleet.RolloutSpec{Module: "keda", Channel: "regular"}}
	r.Status = fleet.RolloutStatus{State: fleet.RolloutRolledBack, Waves: []fleet.WaveStatus{
		{Name: "canaries", Checks: []fleet.CheckSummary{{Name: "latency", Passed: 3, Failed: 1}}},
		{Name: "rest", Checks: []fleet.CheckSummary{{Name: "latency", Passed: 2, Inconclusive: 4}}},
	}}
	setRolloutMetrics([]*fleet.Rollout{r})
	got := series(t, "kyma_pull_publisher_check_results")
	want := map[string]float64{"Passed": 5, "Failed": 1, "Inconclusive": 4}
	for result, count := range want {
		if got["regular/latency/keda/"+result] != count {
			t.Errorf("%s: got %v, want %v", result, got, count)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got series %v, want %v", got, want)
	}
}

func series(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			key := ""
			for _, label := range m.GetLabel() {
				if key != "" {
					key += "/"
				}
				key += label.GetValue()
			}
			found[key] = m.GetGauge().GetValue()
		}
	}
	return found
}
