package ingest

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// HeldBy returns the status of a Kyma while a Git commit is partially applied. During this time, the publisher only
// renews bundles. commit describes the Git commit. If commit is empty, the condition does not change.
func HeldBy(
	before v1beta2.KymaStatus, renewed *plan.Published, commit string, generation int64, now time.Time,
) v1beta2.KymaStatus {
	after := *before.DeepCopy()
	if r := after.Runtime; r != nil && renewed != nil && r.Published != nil &&
		r.Published.Digest != renewed.Digest.String() {
		last, next := *r.Published, renewed.Record()
		next.Given, next.Certificate = last.Given, lastCertificate(before.Runtime, next)
		next.Earlier = earlierBundles(before.Runtime, Facts{Published: renewed})
		r.Published = &next
	}
	if commit != "" {
		set := setter(&after.Conditions, generation, now)
		set(v1beta2.ConditionPublishing, v1beta2.ReasonCommitHeld, commit+": bundles are renewed without a change",
			false)
	}
	return after
}

func publishing(after v1beta2.KymaStatus, facts Facts, set func(string, string, string, bool)) {
	if facts.Published != nil && meta.FindStatusCondition(after.Conditions, v1beta2.ConditionPublishing) != nil {
		set(v1beta2.ConditionPublishing, v1beta2.ReasonPublishing, "bundles are published", true)
	}
}
