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
	// carriedSilence is the default allowed silence of a runtime whose reports an operator carries.
	carriedSilence = 90 * 24 * time.Hour
	// maxCarriedSilence also limits the validity of carried bundles. An attacker could withhold a newer bundle for that
	// time.
	maxCarriedSilence = 366 * 24 * time.Hour
)

// MaxUnrecorded is the longest time between two recorded reports of a reporting runtime.
const MaxUnrecorded = 24 * time.Hour

// Received is a report that a publisher accepted.
type Received struct {
	Made, Arrived time.Time
	// Recorded is true if the Kyma's status contains the result of the report.
	Recorded bool
}

// LastReport returns the time of the last report of a Kyma's runtime. received is a report that is newer than the
// status, or nil. since is the start of a publisher that has not read the report yet, or zero.
//
// The time of an unrecorded report is only in the field Possible, until the status contains its result.
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

// LatestUnrecorded returns the latest time at which another publisher can have received an unrecorded report, or zero.
// began is the start of this publisher.
func LatestUnrecorded(kyma *v1beta2.Kyma, began time.Time) time.Time {
	r := kyma.Status.Runtime
	if r == nil || r.Observed == nil || r.Observed.Heard == nil || carried(kyma) {
		return time.Time{} // no report yet, or an operator carries the reports
	}
	if last := r.Observed.Heard.Add(MaxUnrecorded); last.Before(began) {
		return last
	}
	return began
}

// LastReportTime returns the arrival time of the last report, or zero. For a carried report, it returns the creation
// time if that is earlier.
func LastReportTime(kyma *v1beta2.Kyma) time.Time {
	if r := kyma.Status.Runtime; r != nil && r.Observed != nil {
		return LastReportTimeIn(kyma, *r.Observed)
	}
	return time.Time{}
}

// Reports reports whether a runtime is reporting, according to its Kyma's condition Reporting. It returns false for
// carried reports.
func Reports(kyma *v1beta2.Kyma) bool {
	reporting := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReporting)
	return reporting != nil && reporting.Status == metav1.ConditionTrue && reporting.Reason != v1beta2.ReasonCarried
}

// LastReportTimeIn returns the result of LastReportTime for a report that is not in the Kyma's status yet.
func LastReportTimeIn(kyma *v1beta2.Kyma, observed v1beta2.ObservedBundle) time.Time {
	return LastReportTimeOf(observed, carried(kyma))
}

// LastReportTimeOf returns the result of LastReportTime for a recorded report. carried is true if an operator carries
// the reports.
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

// Allowed returns the allowed silence of a Kyma's runtime. carried is true if an operator carries its bundles and
// reports. For an invalid duration, it returns the default and an error.
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
