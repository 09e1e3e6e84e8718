package ingest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// setWatchers sets the condition SKRWebhook. While the runtime has not reported the latest bundle, an existing
// condition does not change.
func setWatchers(after *v1beta2.KymaStatus, facts Facts, set func(string, string, string, bool)) {
	if facts.Published == nil {
		return
	}
	asked := len(facts.Published.State.Watchers)
	switch {
	case asked == 0:
		meta.RemoveStatusCondition(&after.Conditions, v1beta2.ConditionSKRWebhook)
	case !isApplied(facts):
		if meta.FindStatusCondition(after.Conditions, v1beta2.ConditionSKRWebhook) == nil {
			set(v1beta2.ConditionSKRWebhook, v1beta2.ReasonPending,
				fmt.Sprintf("waiting for the runtime to report bundle %d", facts.Published.Predicate.Sequence), false)
		}
	default:
		for _, w := range facts.Report.Watched {
			if w.Trouble != "" {
				set(v1beta2.ConditionSKRWebhook, v1beta2.ReasonNotWatched,
					fmt.Sprintf("watcher %s: %s", w.Watcher, w.Trouble), false)
				return
			}
		}
		set(v1beta2.ConditionSKRWebhook, v1beta2.ReasonWatching,
			fmt.Sprintf("the runtime watches the objects of %d Watchers", asked), true)
	}
}
