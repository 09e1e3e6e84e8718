package promote

import (
	"slices"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/promote"
)

func TestPromotionReportsTheRolloutThatItInterrupts(t *testing.T) {
	of := func(name, module, channel string, state v1alpha1.RolloutState) v1alpha1.Rollout {
		r := v1alpha1.Rollout{Spec: v1alpha1.RolloutSpec{Module: module, Channel: channel, To: "1.1.0"}}
		r.Name, r.Status.State = name, state
		return r
	}
	messages := interruptedMessages([]v1alpha1.Rollout{
		of("running", "keda", "regular", v1alpha1.RolloutWaiting),
		of("undone", "keda", "regular", v1alpha1.RolloutRollingBack),
		of("ended", "keda", "regular", v1alpha1.RolloutSucceeded),
		of("other-channel", "keda", "fast", v1alpha1.RolloutWaiting),
		of("other-module", "nats", "regular", v1alpha1.RolloutWaiting),
	}, promote.Promotion{Module: "keda", Channel: "regular", To: "1.2.0"})
	if want := []string{"rollout running to 1.1.0 has not ended (Waiting): this promotion replaces it",
		"rollout undone is rolling back: runtimes get 1.2.0 after that"}; !slices.Equal(messages, want) {
		t.Errorf("got %q, want %q", messages, want)
	}
}
