package actions_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// The only runtime of wave canaries has been offline for a day.
func TestApprovalOfAnOfflineWaveStartsTheNextWave(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := underWay()
	r.Name = "keda-regular-1"
	r.Spec.OfflineAfter.Duration = 15 * time.Minute
	r.Spec.Waves[0].Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "canary"}}
	r.Spec.Waves[1].Approval, r.Spec.Waves[1].Percent = false, new(int32(100))
	runtimes := []rollout.Runtime{
		{
			ID: "offline", Labels: map[string]string{"stage": "canary"}, Version: "1.0.0",
			LastReport: silence.LastReport{KnownAt: noon.Add(-24 * time.Hour)},
		},
		{ID: "online", Version: "1.0.0", LastReport: silence.LastReport{KnownAt: noon}},
	}
	plan := func() []rollout.Decision {
		step := rollout.Plan(r.Name, r.Spec, r.Status, runtimes, rollout.PlanInput{ChannelVersion: "2.0.0", Now: noon})
		r.Status = step.Status
		return step.Decisions
	}
	if got := plan()[1].Version; got != "1.0.0" || r.Status.State != v1alpha1.RolloutWaiting {
		t.Errorf("before the approval: got version %s, rollout %s: %s", got, r.Status.State, r.Status.Message)
	}
	if _, err := actions.Approve("canaries").Change(r); err != nil {
		t.Fatal(err)
	}
	if got := plan()[1].Version; got != "2.0.0" {
		t.Errorf("after the approval: got version %s, rollout %s: %s", got, r.Status.State, r.Status.Message)
	}
}
