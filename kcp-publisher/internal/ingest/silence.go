package ingest

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Unheard returns the status of a runtime whose reports cannot be asked for at the moment, and whether its allowed silence is
// over. Before that, the status stays as it is; Status judges again once reports can be read again.
func Unheard(before v1beta2.KymaStatus, generation int64, allowed time.Duration, now time.Time) (v1beta2.KymaStatus, bool) {
	if before.Runtime == nil || before.Runtime.Observed == nil || now.Sub(before.Runtime.Observed.Time.Time) <= allowed {
		return before, false
	}
	after := *before.DeepCopy()
	set := setter(&after.Conditions, generation, now)
	reporting(after.Runtime, Facts{Silence: allowed}, now, set)
	if ready := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionReady); ready == nil || ready.Reason != v1beta2.ReasonPublishFailed {
		set(v1beta2.ConditionReady, v1beta2.ReasonNotReady, readyMessage(after), false)
	}
	after.State = worse(before.State, v1beta2.StateWarning)
	if before.State != after.State {
		after.LastOperation = &v1beta2.LastOperation{Operation: readyMessage(after), LastUpdateTime: metav1.NewTime(now.Truncate(time.Second))}
	}
	return after, true
}

// unread says why the registry did not give a report, as the end of a sentence about its absence.
func unread(facts Facts) string {
	if facts.ReportUnread == nil {
		return ""
	}
	return ", and its report cannot be read: " + facts.ReportUnread.Error()
}
