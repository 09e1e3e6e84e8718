package fleet

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

const benchRuntimes, benchModules = 10_000, 20

func benchFleet() Input {
	in := Input{Now: noon}
	all, everybody := int32(100), int64(1)<<53
	conditions := func(message string) []metav1.Condition {
		var found []metav1.Condition
		for _, kind := range []string{v1beta2.ConditionReporting, v1beta2.ConditionAccepted, v1beta2.ConditionModules,
			v1beta2.ConditionModuleCatalog, v1beta2.ConditionReady} {
			found = append(found, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: kind, Message: message,
			})
		}
		return found
	}
	for i := range benchRuntimes {
		name := fmt.Sprintf("runtime-%05d", i)
		versions := map[string]string{}
		spec := v1beta2.KymaSpec{Channel: "regular"}
		kyma := v1beta2.Kyma{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: "kcp-system", Labels: map[string]string{v1beta2.LabelRuntimeID: name},
			},
		}
		for m := range benchModules {
			module := fmt.Sprintf("module-%02d", m)
			versions[module] = "1.0.0"
			spec.Modules = append(spec.Modules, v1beta2.Module{Name: module, Managed: true})
			kyma.Status.Modules = append(kyma.Status.Modules, v1beta2.ModuleStatus{
				Name: module, Channel: "regular", Version: "1.0.0", State: v1beta2.StateReady,
			})
		}
		kyma.Status.State, kyma.Status.Conditions = v1beta2.StateReady, conditions("all modules are ready")
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{
			ID: name, Published: &v1beta2.PublishedBundle{
				Sequence: 7, Digest: "sha256:a", Time: metav1.NewTime(noon), Versions: versions,
			},
			Observed:  &v1beta2.ObservedBundle{Sequence: 7, Digest: "sha256:a", Time: metav1.NewTime(noon)},
			Requested: &v1beta2.RequestedSpec{Spec: spec},
		}
		switch i % 10 {
		case 1:
			kyma.Status.State = v1beta2.StateError
			kyma.Status.Modules[7].State, kyma.Status.Modules[7].Message = v1beta2.StateError,
				"Deployment kyma-system/x cannot start: no such image"
		case 2:
			kyma.Status.State = v1beta2.StateProcessing
			kyma.Status.Conditions[1].Status, kyma.Status.Conditions[1].Reason = metav1.ConditionFalse,
				v1beta2.ReasonPending
		}
		in.Kymas = append(in.Kymas, kyma)
	}
	for m := range 5 {
		in.Rollouts = append(in.Rollouts, v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("r-", m)},
			Spec: v1alpha1.RolloutSpec{Module: fmt.Sprintf("module-%02d", m), Channel: "regular", Revision: 1,
				From: "1.0.0", To: "1.1.0",
				Course: v1alpha1.Course{Waves: []v1alpha1.Wave{{Name: "all", Percent: &all}}}},
			Status: v1alpha1.RolloutStatus{
				State: v1alpha1.RolloutProgressing, Waves: []v1alpha1.WaveStatus{{Name: "all", Place: &everybody}},
			}})
	}
	return in
}

func BenchmarkAssess(b *testing.B) {
	in := benchFleet()
	b.ReportAllocs()
	for b.Loop() {
		Assess(in)
	}
}

func BenchmarkJudge(b *testing.B) {
	in := benchFleet()
	rollouts := NewRollouts(in.Rollouts)
	b.ReportAllocs()
	for b.Loop() {
		Judge(&in.Kymas[0], rollouts, noon)
	}
}

// Judge must be cheap, because the publisher calls it after each report.
func TestRuntimeHealthNeedsFewAllocations(t *testing.T) {
	in := benchFleet()
	if allocations := testing.AllocsPerRun(100, func() { Judge(&in.Kymas[0], Rollouts{}, noon) }); allocations > 4 {
		t.Errorf("Judge of a healthy runtime with %d modules: got %.0f allocations, want at most 4", benchModules,
			allocations)
	}
}
