package ingest

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

const (
	// carriedSilence is how long reports that are carried by hand may be missing when nobody says otherwise: a season at sea.
	carriedSilence = 90 * 24 * time.Hour
	// maxCarriedSilence is how long they may be missing at most: bundles live as long, and whoever keeps one back keeps it that long.
	maxCarriedSilence = 366 * 24 * time.Hour
)

// Allowed gives how long a Kyma's runtime may be silent, and whether its reports are carried by hand. A duration that cannot be read
// is as good as none, and the error says so.
func Allowed(annotation string, silence time.Duration) (time.Duration, bool, error) {
	switch annotation {
	case "", v1beta2.False:
		return silence, false, nil
	case v1beta2.True:
		return carriedSilence, true, nil
	}
	allowed, err := time.ParseDuration(annotation)
	if err != nil || allowed <= 0 || allowed > maxCarriedSilence {
		return silence, false, fmt.Errorf("annotation %s: %q: want true, or a duration such as 2160h, at most %.0fh", v1beta2.AnnotationCarried, annotation, maxCarriedSilence.Hours())
	}
	return allowed, true, nil
}

// Unheard gives the status of a runtime whose reports cannot be asked for at the moment, and whether its allowed silence is
// over. Before that, the status stays as it is; Status judges anew once reports can be read again.
func Unheard(before v1beta2.KymaStatus, generation int64, allowed time.Duration, now time.Time) (v1beta2.KymaStatus, bool) {
	if before.Runtime == nil || before.Runtime.Observed == nil || now.Sub(before.Runtime.Observed.Time.Time) <= allowed {
		return before, false
	}
	after := *before.DeepCopy()
	set := setter(&after.Conditions, generation, now)
	reporting(after.Runtime, Facts{Silence: allowed}, now, set)
	if ready := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionReady); ready == nil || ready.Reason != ReasonPublish {
		set(v1beta2.ConditionReady, reasonNotReady, readyMessage(after), false)
	}
	after.State = worse(before.State, v1beta2.StateWarning)
	if before.State != after.State {
		after.LastOperation = &v1beta2.LastOperation{Operation: readyMessage(after), LastUpdateTime: metav1.NewTime(now.Truncate(time.Second))}
	}
	return after, true
}

// unread tells why the registry did not give a report, as the end of a sentence about its absence.
func unread(facts Facts) string {
	if facts.ReportUnread == nil {
		return ""
	}
	return ", and its report cannot be read: " + facts.ReportUnread.Error()
}
