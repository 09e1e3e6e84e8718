package fleet

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func TestRefusalReasonDeterminesSituation(t *testing.T) {
	for why, situation := range situations[fromBundle] {
		if why == v1beta2.Reason(reason.Other) {
			continue
		}
		for _, message := range []string{"the runtime refused it", "the runtime refused it (Whatever): (Expired)"} {
			kyma := newWorld(t).refusedBundle(refusal.Reason(why)).status()
			meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionAccepted).Message = message
			if got := Judge(kyma, Rollouts{}, noon); got.Cause == nil || got.Cause.Situation != situation ||
				got.Cause.Message != message {
				t.Errorf("%s with %q: got %+v, want %s", why, message, got.Cause, situation)
			}
		}
	}
}
