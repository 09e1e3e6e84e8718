package report

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// setCatalogCondition sets the condition ModuleCatalog in the Kyma's status.
func setCatalogCondition(facts Facts, set func(string, string, string, bool)) {
	switch t := facts.Trouble; {
	case t != nil && t.Catalog:
		set(v1beta2.ConditionModuleCatalog, v1beta2.ReasonObjectRefused,
			"failed to write some catalog objects of the last accepted bundle: "+t.Message, false)
	case facts.Bundle == nil:
		set(v1beta2.ConditionModuleCatalog, v1beta2.ReasonNotReady, cmp.Or(facts.LostBundle, noBundle), false)
	default:
		set(v1beta2.ConditionModuleCatalog, v1beta2.ReasonReady, "the catalog of the last accepted bundle is written", true)
	}
}

// setSecretsCondition sets the condition Secrets in the Kyma's status. It returns the problem, or "" if all Secrets
// were written.
func setSecretsCondition(facts Facts, set func(string, string, string, bool)) string {
	switch s := facts.Secrets; {
	case s == nil:
		return ""
	case s.Trouble != "":
		set(v1beta2.ConditionSecrets, v1beta2.ReasonNotWritten, s.Trouble, false)
		return s.Trouble
	}
	set(v1beta2.ConditionSecrets, v1beta2.ReasonWritten, "the Secrets of the last accepted bundle are written", true)
	return ""
}

// setSyncedCondition sets the condition Synced, which reports objects from the bundle that could not be written. A Kyma
// does not get the condition before the first failed write. setSyncedCondition returns the problem, or "" if all
// objects are written.
func setSyncedCondition(conditions []metav1.Condition, facts Facts, set func(string, string, string, bool)) string {
	switch t := facts.Trouble; {
	case t != nil:
		set(v1beta2.ConditionSynced, t.Reason, t.Message, false)
		return t.Message
	case meta.FindStatusCondition(conditions, v1beta2.ConditionSynced) != nil:
		set(v1beta2.ConditionSynced, v1beta2.ReasonSynced, "all objects of the last accepted bundle are written", true)
	}
	return ""
}

// setWatchersCondition sets the condition for the bundle's Watchers. It removes the condition if the bundle has no
// Watchers.
func setWatchersCondition(after *v1beta2.KymaStatus, facts Facts, set func(string, string, string, bool)) {
	if facts.Bundle == nil || len(facts.Bundle.State.Watchers) == 0 {
		meta.RemoveStatusCondition(&after.Conditions, v1beta2.ConditionSKRWebhook)
		return
	}
	for _, w := range facts.Watched {
		if w.Trouble != "" {
			set(v1beta2.ConditionSKRWebhook, v1beta2.ReasonNotWatched,
				fmt.Sprintf("watcher %s: %s", w.Watcher, w.Trouble), false)
			return
		}
	}
	set(v1beta2.ConditionSKRWebhook, v1beta2.ReasonWatching,
		fmt.Sprintf("the agent watches the resources of %d Watchers", len(facts.Bundle.State.Watchers)), true)
}
