package rollout

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// After the soak, the rollout waits for an inconclusive check. The passing of time alone must not change the status,
// and the estimated end must not be in the past.
func TestEstimatedRolloutEndDoesNotMoveWithTheClock(t *testing.T) {
	policy := policies("careful")
	policy[0].Spec.Waves = []fleet.Wave{{
		Name: "all", Percent: new(int32(100)), Checks: checkedWaves().Waves[0].Checks[:1],
		Soak: metav1.Duration{Duration: 10 * time.Minute}, Deadline: metav1.Duration{Duration: 50 * time.Minute},
	}}
	runtimes := []Runtime{at("one", "prod", "1.0.0"), at("two", "prod", "1.0.0")}
	stored := []fleet.Rollout{*EvaluateAll(policy, nil, map[Track]Followers{keda: {"2.0.0", runtimes}}, noon).Create[0]}
	stored[0].ResourceVersion = "7"
	for i, result := range []v1beta2.CheckResult{v1beta2.CheckPassed, v1beta2.CheckInconclusive} {
		runtimes[i] = measuredBy(grantedAgo(runtimes[i], 0), v1beta2.CheckOutcome{Name: "latency", Result: result})
		runtimes[i].Selection.Ready = true
	}
	writes, estimated := 0, false
	for minute := range 50 {
		now := noon.Add(time.Duration(minute) * time.Minute)
		for i := range runtimes {
			runtimes[i].LastReport.KnownAt = now
		}
		for _, r := range EvaluateAll(policy, stored, map[Track]Followers{keda: {"2.0.0", runtimes}}, now).Update {
			stored[0].Status = r.Status
			writes++
		}
		s := stored[0].Status
		if s.State != fleet.RolloutProgressing {
			t.Fatalf("after %d minutes: got rollout state %s: %s", minute, s.State, s.Message)
		}
		if s.EstimatedEnd != nil {
			estimated = true
			if s.EstimatedEnd.Time.Before(now) {
				t.Errorf("after %d minutes: the estimated end %s has passed", minute, s.EstimatedEnd)
			}
		}
	}
	if !estimated {
		t.Error("the rollout never had an estimated end")
	}
	if writes > 4 { // the first results, the start and end of the soak, and the passed estimate
		t.Errorf("time alone caused %d writes in 50 minutes", writes)
	}
}
