package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

const (
	// carriedSilence is the default allowed silence of a runtime whose reports are carried by hand.
	carriedSilence = 90 * 24 * time.Hour
	// maxCarriedSilence limits the allowed silence of a runtime whose reports are carried by hand. Its bundles are
	// valid for the allowed silence, so an attacker could withhold a newer bundle for that time.
	maxCarriedSilence = 366 * 24 * time.Hour
)

// MaxUnrecorded is the longest time between two recorded reports of a reporting runtime, because an unchanged report is
// recorded once a day.
const MaxUnrecorded = 24 * time.Hour

// Received is a report that a publisher accepted.
type Received struct {
	Made, Arrived time.Time
	// Recorded is true if the Kyma's status contains the result of the report.
	Recorded bool
}

// LastReport returns the time of the last report of a Kyma's runtime: the report in the status, or the newer received
// report if it is not nil. since is the start of a publisher that has not polled for the report yet: until then,
// another publisher may have received a report without recording it. since is zero after the first poll.
//
// Until the Kyma's status contains the result of the received report, the result's field At still contains the time of
// the previous report. The time of the received report is then in the field Possible. If the latest report was refused
// according to the status, the received report is ignored, because it may never be recorded.
func LastReport(kyma *v1beta2.Kyma, received *Received, since time.Time) silence.LastReport {
	last := silence.LastReport{At: LastReportTime(kyma)}
	if !since.IsZero() {
		last.Possible = LatestUnrecorded(kyma, since)
	}
	if received == nil {
		return last
	}
	at := LastReportTimeIn(kyma, v1beta2.ObservedBundle{
		Time: metav1.NewTime(received.Made), Heard: new(metav1.NewTime(received.Arrived)),
	})
	switch {
	case !at.After(last.At):
	case received.Recorded:
		last.At = at
	case at.After(last.Possible) && !RefusedReport(kyma):
		last.Possible = at
	}
	return last
}

// RefusedReport reports whether the latest report was refused, according to the Kyma's status.
func RefusedReport(kyma *v1beta2.Kyma) bool {
	reporting := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReporting)
	return reporting != nil && reporting.Reason == v1beta2.ReasonReportRefused
}

// LatestUnrecorded returns the latest time at which another publisher can have received a report without recording it,
// or zero. began is the start time of this publisher, which has not polled for the report yet.
func LatestUnrecorded(kyma *v1beta2.Kyma, began time.Time) time.Time {
	r := kyma.Status.Runtime
	if r == nil || r.Observed == nil || r.Observed.Heard == nil || carried(kyma) {
		return time.Time{} // nothing was reported yet, or each report is carried by hand and recorded at once
	}
	if last := r.Observed.Heard.Add(MaxUnrecorded); last.Before(began) {
		return last
	}
	return began
}

// LastReportTime returns the arrival time of the last report by the control plane's clock, or zero if no report was
// received. For a report that is carried by hand, it returns the report's creation time if that is earlier.
func LastReportTime(kyma *v1beta2.Kyma) time.Time {
	if r := kyma.Status.Runtime; r != nil && r.Observed != nil {
		return LastReportTimeIn(kyma, *r.Observed)
	}
	return time.Time{}
}

// Reports reports whether a runtime is reporting, according to its Kyma's Reporting condition. The report time in the
// status is not precise enough, because it is recorded only once a day. It returns false if the reports are carried by
// hand.
func Reports(kyma *v1beta2.Kyma) bool {
	reporting := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReporting)
	return reporting != nil && reporting.Status == metav1.ConditionTrue && reporting.Reason != v1beta2.ReasonCarried
}

// LastReportTimeIn returns the result of LastReportTime for a report that is not yet in the Kyma's status.
func LastReportTimeIn(kyma *v1beta2.Kyma, observed v1beta2.ObservedBundle) time.Time {
	return LastReportTimeOf(observed, carried(kyma))
}

// LastReportTimeOf returns the same time as LastReportTime, but its input is the recorded report instead of the Kyma.
// carried is true if the runtime's reports are carried by hand.
func LastReportTimeOf(observed v1beta2.ObservedBundle, carried bool) time.Time {
	if observed.Heard == nil || carried && observed.Time.Before(observed.Heard) {
		return observed.Time.Time // older publishers did not record the arrival time
	}
	return observed.Heard.Time
}

func carried(kyma *v1beta2.Kyma) bool {
	_, carried, err := Rules{}.Allowed(kyma)
	return carried && err == nil
}

// Allowed returns the allowed silence of a Kyma's runtime, and whether its bundles and reports are carried by hand. For
// an invalid duration, it returns the default and an error.
func (r Rules) Allowed(kyma *v1beta2.Kyma) (silence time.Duration, carried bool, err error) {
	annotation := kyma.Annotations[v1beta2.AnnotationCarried]
	switch annotation {
	case "", v1beta2.False:
		return r.Silence, false, nil
	case v1beta2.True:
		return carriedSilence, true, nil
	}
	allowed, err := time.ParseDuration(annotation)
	if err != nil || allowed <= 0 || allowed > maxCarriedSilence {
		return r.Silence, false,
			reason.Errorf(reason.AnnotationInvalid,
				"annotation %s: %q must be true, or a duration such as 2160h, at most %.0fh", v1beta2.AnnotationCarried,
				annotation, maxCarriedSilence.Hours())
	}
	return allowed, true, nil
}
