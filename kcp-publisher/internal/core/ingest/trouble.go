package ingest

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func reportedTrouble(facts Facts) *bundle.ReportedTrouble {
	if facts.Report == nil {
		return nil
	}
	return facts.Report.Trouble
}

// setSynced sets the condition Synced to False if the runtime could not write objects. A runtime that never had this
// problem does not get the condition.
func setSynced(after v1beta2.KymaStatus, facts Facts, set func(string, string, string, bool)) {
	switch t := reportedTrouble(facts); {
	case t != nil && (t.Reason == v1beta2.ReasonStorageRefused || t.Reason == v1beta2.ReasonPinsUnreadable):
		set(v1beta2.ConditionSynced, t.Reason, t.Message, false)
	case t != nil:
		// t.Reason can be any text from the runtime, so use a constant reason.
		set(v1beta2.ConditionSynced, v1beta2.ReasonObjectRefused, t.Message, false)
	case facts.Report != nil && meta.FindStatusCondition(after.Conditions, v1beta2.ConditionSynced) != nil:
		set(v1beta2.ConditionSynced, v1beta2.ReasonSynced, "the runtime has written all objects of the bundle", true)
	}
}

func setModuleCatalog(facts Facts, set func(string, string, string, bool)) {
	switch t := reportedTrouble(facts); {
	case facts.Report == nil || !isApplied(facts):
		set(v1beta2.ConditionModuleCatalog, v1beta2.ReasonNotReady,
			"the runtime has not reported the latest bundle yet", false)
	case t != nil && t.Catalog:
		set(v1beta2.ConditionModuleCatalog, v1beta2.ReasonNotReady,
			"the runtime could not write all of the latest catalog: "+t.Message, false)
	default:
		set(v1beta2.ConditionModuleCatalog, v1beta2.ReasonReady, "the runtime has the latest catalog", true)
	}
}
