package ingest

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
)

func reportedTrouble(facts Facts) *bundle.ReportedTrouble {
	if facts.Report == nil {
		return nil
	}
	return facts.Report.Trouble
}

// setSynced sets condition Synced to False if the runtime could not write objects. The condition is absent until this
// problem first occurs.
func setSynced(after v1beta2.KymaStatus, facts Facts, set func(string, string, string, bool)) {
	switch t := reportedTrouble(facts); {
	case t != nil && (t.Reason == v1beta2.ReasonStorageRefused || t.Reason == v1beta2.ReasonPinsUnreadable):
		set(v1beta2.ConditionSynced, t.Reason, t.Message, false)
	case t != nil:
		// t.Reason can be any text from the runtime, so use a constant reason.
		set(v1beta2.ConditionSynced, v1beta2.ReasonObjectRefused, t.Message, false)
	case facts.Report != nil && meta.FindStatusCondition(after.Conditions, v1beta2.ConditionSynced) != nil:
		set(v1beta2.ConditionSynced, v1beta2.ReasonSynced, "the runtime has written all objects from the bundle", true)
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

// removalReasons contains the text of each removal reason for condition messages.
var removalReasons = map[removal.Reason]string{
	removal.FleetShare:       "the change removes modules from more runtimes than allowed at once",
	removal.ModuleCount:      "the change removes the module from more runtimes than allowed at once",
	removal.Restored:         "the control plane's record is older than the runtime's state, as after a restore",
	removal.NamespaceDeleted: "the namespace of the Kymas is being deleted",
}

func removalDecisions(r *v1beta2.RuntimeStatus) []v1beta2.ModuleRemoval {
	if r == nil {
		return nil
	}
	return r.Removals
}

// setRemovals sets the condition Removals to False while module removals wait for approval.
func setRemovals(after v1beta2.KymaStatus, facts Facts, set func(string, string, string, bool)) {
	waiting := facts.Removals.HeldModules()
	switch {
	case len(waiting) > 0:
		set(v1beta2.ConditionRemovals, v1beta2.ReasonRemovalsHeld, heldMessage(waiting, facts.Removals.HeldReasons), false)
	case facts.Published != nil && meta.FindStatusCondition(after.Conditions, v1beta2.ConditionRemovals) != nil:
		set(v1beta2.ConditionRemovals, v1beta2.ReasonNoRemovalsHeld, "no removal waits for approval", true)
	}
}

func heldMessage(waiting []string, held map[string]removal.Reason) string {
	what := "the removal of module " + waiting[0]
	switch {
	case waiting[0] == "":
		what = "the Kyma is deleted, and the removal of all modules"
	case len(waiting) > 1:
		what = "the removal of modules " + strings.Join(waiting, ", ")
	}
	return fmt.Sprintf("%s waits for an operator's approval: %s: see `kcp-publisher removals`", what,
		removalReasons[held[waiting[0]]])
}

// setSecrets sets the condition Secrets. It does not add the condition if the runtime never had Secrets.
func setSecrets(
	before []metav1.Condition, facts Facts, why *v1beta2.RuntimeReasons, set func(string, string, string, bool),
) {
	var sealed *bundle.Sealed
	if facts.Published != nil {
		sealed = facts.Published.Predicate.Sealed
	}
	why.Secrets = ""
	switch {
	case facts.SecretsError != nil:
		why.Secrets = knownReason(reason.Of(facts.SecretsError), reason.Sealing)
		set(v1beta2.ConditionSecrets, v1beta2.ReasonNotSealed, facts.SecretsError.Error(), false)
	case sealed == nil:
		if meta.FindStatusCondition(before, v1beta2.ConditionSecrets) != nil {
			set(v1beta2.ConditionSecrets, v1beta2.ReasonWritten, "no Secrets are configured for the runtime", true)
		}
	case !isApplied(facts) || facts.Report.Secrets == nil || facts.Report.Secrets.Revision != sealed.Revision:
		set(v1beta2.ConditionSecrets, v1beta2.ReasonPending,
			fmt.Sprintf("waiting for the runtime to report bundle %d", facts.Published.Predicate.Sequence), false)
	case facts.Report.Secrets.Trouble != "":
		why.Secrets = knownReason(facts.Report.Secrets.Reason, reason.Secrets)
		set(v1beta2.ConditionSecrets, v1beta2.ReasonNotWritten, facts.Report.Secrets.Trouble, false)
	default:
		set(v1beta2.ConditionSecrets, v1beta2.ReasonWritten, "the runtime has written its Secrets", true)
	}
}

// areSecretsApplied reports whether the runtime has applied the latest bundle's Secrets.
func areSecretsApplied(facts Facts) bool {
	if facts.PublishError != nil || facts.Published == nil || facts.Published.Predicate.Sealed == nil ||
		!isApplied(facts) {
		return false
	}
	secrets := facts.Report.Secrets
	return secrets != nil && secrets.Trouble == "" && secrets.Revision == facts.Published.Predicate.Sealed.Revision
}

// truncate shortens a condition message to the length that the API server accepts.
func truncate(message string) string {
	const maxMessageBytes = 4096
	return bundle.Bounded(message, maxMessageBytes)
}
