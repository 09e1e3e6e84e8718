package promote

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/train"
)

func TestTrainStatusShowsTheLastChannelOfEachVersion(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	after := &metav1.Duration{Duration: 24 * time.Hour}
	policy := v1alpha1.PromotionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "kcp-system"},
		Spec: v1alpha1.PromotionPolicySpec{
			Channels: []v1alpha1.TrainChannel{
				{Name: "dev", After: after},
				{Name: "fast", After: after},
				{Name: "regular"},
			},
		},
		Status: v1alpha1.PromotionPolicyStatus{
			Conditions: []metav1.Condition{
				{
					Type:    v1alpha1.ConditionReady,
					Status:  metav1.ConditionTrue,
					Reason:  v1alpha1.PolicyModulesMissing,
					Message: "no ModuleReleaseMeta found for modules: kedda",
				},
			},
			Modules: []v1alpha1.ModuleTrain{{Name: "keda", Versions: []v1alpha1.TrainVersion{
				{Channel: "dev", Version: "1.8.0", Since: ago(50 * time.Hour), Reason: v1alpha1.WaitPromoted},
				{
					Channel: "fast",
					Version: "1.8.0",
					Since:   ago(90 * time.Minute),
					Reason:  v1alpha1.WaitTimeNotReached,
					Message: "waiting for the minimum time",
					Arrival: &metav1.Time{Time: now.Add(time.Hour)},
				},
				{Channel: "regular", Version: "1.7.0", Since: ago(77 * time.Hour), Reason: v1alpha1.WaitArrived},
			}}},
		},
	}
	view := train.NewView(&policy)
	if len(view.Versions) != 2 || view.Versions[0].To != "regular" || view.Versions[1].To != "" || !view.Ready {
		t.Fatalf("got train %+v, want two versions", view)
	}
	var out bytes.Buffer
	drawTrains(&out, []train.View{view}, now)
	for _, want := range []string{
		"policy train: no ModuleReleaseMeta found for modules: kedda\n", "90m", "3d5h", "2026-11-25T13:00:00Z",
		"TimeNotReached", "waiting for the minimum time", "Arrived",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output does not contain %q:\n%s", want, out.String())
		}
	}
	var none bytes.Buffer
	if drawTrains(&none, nil, now); !strings.Contains(none.String(), "create a PromotionPolicy") {
		t.Errorf("without PromotionPolicies: got %q", none.String())
	}
}
