package ui

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func TestUndoCountsTheRuntimesOfPredecessors(t *testing.T) {
	rollout := func(name string, state v1alpha1.RolloutState, updated int32) v1alpha1.Rollout {
		return v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: v1alpha1.RolloutStatus{State: state, Updated: updated}}
	}
	retry := &fleet.Rollout{Name: "keda-3", Spec: v1alpha1.RolloutSpec{Predecessors: []string{"keda-2", "keda-1"}},
		Status: v1alpha1.RolloutStatus{Updated: 3}}
	related := []v1alpha1.Rollout{
		rollout("keda-0", v1alpha1.RolloutStopped, 1000), rollout("keda-1", v1alpha1.RolloutRolledBack, 70),
		rollout("keda-2", v1alpha1.RolloutStopped, 500), rollout("keda-3", v1alpha1.RolloutProgressing, 3),
	}
	if got := countUndone(retry, related); got != 503 {
		t.Errorf("got %d runtimes, want 503", got)
	}
}
