package ingest

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

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

// KnownSecrets returns the names of all Secrets that may exist in the runtime. These are the Secrets to publish, and
// the earlier Secrets until the runtime has removed them.
func KnownSecrets(before []string, current []bundle.RuntimeSecret, facts Facts) []string {
	var known []string
	for _, s := range current {
		known = append(known, s.NamespacedName())
	}
	if !areSecretsApplied(facts) {
		known = append(known, before...)
	}
	slices.Sort(known)
	return slices.Compact(known)
}

// areSecretsApplied reports whether the runtime has applied the Secrets of the latest bundle.
func areSecretsApplied(facts Facts) bool {
	if facts.SecretsError != nil || facts.PublishError != nil || facts.Published == nil ||
		facts.Published.Predicate.Sealed == nil || !isApplied(facts) {
		return false
	}
	secrets := facts.Report.Secrets
	return secrets != nil && secrets.Trouble == "" && secrets.Revision == facts.Published.Predicate.Sealed.Revision
}
