package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// The publisher updates the report time in the status only once a day, so the preview must not use it.
func TestPreviewDetectsSilentRuntimesByReportingCondition(t *testing.T) {
	policy := fleet.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec: fleet.RolloutPolicySpec{Modules: []string{"keda"}, Course: fleet.Course{
			OfflineAfter: metav1.Duration{Duration: 15 * time.Minute},
			Waves:        []fleet.Wave{{Name: "all", Percent: new(int32(100))}},
		}}}
	for name, c := range map[string]struct {
		status metav1.ConditionStatus
		reason string
		want   string
	}{
		"runtime that reports":                         {metav1.ConditionTrue, v1beta2.ReasonReported, "2.0.0"},
		"runtime with a truncated report":              {metav1.ConditionTrue, v1beta2.ReasonTruncated, "2.0.0"},
		"silent runtime":                               {metav1.ConditionFalse, v1beta2.ReasonSilent, "1.0.0"},
		"runtime whose reports are carried by hand":    {metav1.ConditionTrue, v1beta2.ReasonCarried, "1.0.0"},
		"runtime whose condition Reporting is Unknown": {metav1.ConditionUnknown, "", "1.0.0"},
	} {
		kyma := readyKyma("one")
		reportedAt := metav1.NewTime(noon.Add(-20 * time.Hour))
		kyma.Status.Runtime.Observed = &v1beta2.ObservedBundle{Time: reportedAt, Heard: &reportedAt}
		kyma.Status.Runtime.Published = &v1beta2.PublishedBundle{Versions: map[string]string{"keda": "1.0.0"}}
		kyma.Status.Conditions = []metav1.Condition{
			{Type: v1beta2.ConditionReporting, Status: c.status, Reason: c.reason},
		}
		rollouts := []fleet.Rollout{{ObjectMeta: metav1.ObjectMeta{Name: "keda-regular-1", ResourceVersion: "1"},
			Spec: fleet.RolloutSpec{
				Policy: "all", Module: "keda", Channel: "regular", Revision: 1, From: "1.0.0", To: "2.0.0",
				Course: policy.Spec.Course,
			}}}
		preview := (Rules{}).
			Preview(Fleet{Kymas: []v1beta2.Kyma{*kyma}, Catalog: offering(t, "keda"),
				Policies: []fleet.RolloutPolicy{policy}, Rollouts: rollouts}, noon)
		if got := preview.Round.Gates[keda].Decide("one", "1.0.0").Version; got != c.want {
			t.Errorf("%s: got version %s, want %s", name, got, c.want)
		}
	}
}
