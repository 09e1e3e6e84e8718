package fleet

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestARefusedBundleIsRecognizedWhateverTheMessageSays(t *testing.T) {
	for reason, situation := range refusals {
		for _, message := range []string{"the runtime refused it", "the runtime refused it (Whatever): (Expired)"} {
			kyma := newWorld(t).refusedBundle(reason).status()
			meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionAccepted).Message = message
			if got := Judge(kyma, Rollouts{}, noon); got.Cause == nil || got.Cause.Situation != situation || got.Cause.Message != message {
				t.Errorf("%s with %q: got %+v, want %s", reason, message, got.Cause, situation)
			}
		}
	}
	// A status of a publisher that does not note the reason says it in words only.
	kyma := newWorld(t).refusedBundle("Downgrade").status()
	kyma.Status.Runtime.History = nil
	if got := Judge(kyma, Rollouts{}, noon); got.Cause == nil || got.Cause.Situation != BundleDowngrade {
		t.Errorf("without what is noted: %+v", got.Cause)
	}
}
