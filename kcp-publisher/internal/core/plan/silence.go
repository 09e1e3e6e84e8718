package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// MaxUnrecorded is the maximum time between two updates of the report time in the Kyma's status while a runtime
// reports.
const MaxUnrecorded = 24 * time.Hour

// ReceivedReport contains the creation and arrival times of a report that a publisher accepted.
type ReceivedReport struct {
	CreatedAt, ArrivedAt time.Time
	// IsRecorded is true if the Kyma's status already contains the report's data.
	IsRecorded bool
}

// LastReport returns the time of the last report from a Kyma's runtime. received is the report that this publisher last
// accepted, or nil. startedAt is the start time of this publisher, or zero if it has already read a report from the
// runtime. If the status does not contain the received report yet, the result contains the report's time only in
// PossibleAt.
func LastReport(kyma *v1beta2.Kyma, received *ReceivedReport, startedAt time.Time) silence.LastReport {
	last := silence.LastReport{KnownAt: LastReportTime(kyma)}
	if !startedAt.IsZero() {
		last.PossibleAt = LatestUnrecorded(kyma, startedAt)
	}
	if received == nil {
		return last
	}
	at := lastReportTimeIn(kyma, v1beta2.ObservedBundle{
		Time: metav1.NewTime(received.CreatedAt), Heard: new(metav1.NewTime(received.ArrivedAt)),
	})
	switch {
	case !at.After(last.KnownAt):
	case received.IsRecorded:
		last.KnownAt = at
	case at.After(last.PossibleAt) && !HasRefusedReport(kyma):
		last.PossibleAt = at
	}
	return last
}

// HasRefusedReport reports whether the Kyma's status shows that the publisher refused the latest report.
func HasRefusedReport(kyma *v1beta2.Kyma) bool {
	reporting := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReporting)
	return reporting != nil && reporting.Reason == v1beta2.ReasonReportRefused
}

// LatestUnrecorded returns the time until which a previous publisher may have received reports that the Kyma's status
// does not show. It returns zero if no previous publisher could have received one. startedAt is the start time of this
// publisher.
func LatestUnrecorded(kyma *v1beta2.Kyma, startedAt time.Time) time.Time {
	r := kyma.Status.Runtime
	if r == nil || r.Observed == nil || r.Observed.Heard == nil || isCarried(kyma) {
		return time.Time{} // no report yet, or an operator carries the reports by hand
	}
	if last := r.Observed.Heard.Add(MaxUnrecorded); last.Before(startedAt) {
		return last
	}
	return startedAt
}

// LastReportTime returns the arrival time of the last report, or zero. If an operator carries the reports by hand, it
// returns the report's creation time if that is earlier.
func LastReportTime(kyma *v1beta2.Kyma) time.Time {
	if r := kyma.Status.Runtime; r != nil && r.Observed != nil {
		return lastReportTimeIn(kyma, *r.Observed)
	}
	return time.Time{}
}

// IsReporting reports whether the condition Reporting shows that the runtime is not silent. It returns false if an
// operator carries the reports by hand.
func IsReporting(kyma *v1beta2.Kyma) bool {
	reporting := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReporting)
	return reporting != nil && reporting.Status == metav1.ConditionTrue && reporting.Reason != v1beta2.ReasonCarried
}

// lastReportTimeIn is like LastReportTime, but for a report that is not in the Kyma's status yet.
func lastReportTimeIn(kyma *v1beta2.Kyma, observed v1beta2.ObservedBundle) time.Time {
	return LastReportTimeOf(observed, isCarried(kyma))
}

// LastReportTimeOf is like LastReportTime, but for a single report. carried is true if an operator carries the reports
// by hand.
func LastReportTimeOf(observed v1beta2.ObservedBundle, carried bool) time.Time {
	if observed.Heard == nil || carried && observed.Time.Before(observed.Heard) {
		// Publishers of older versions did not record the arrival time.
		return observed.Time.Time
	}
	return observed.Heard.Time
}

// IsResting reports whether the runtime has applied the latest bundle and all its modules are ready, so that no work is
// pending.
func IsResting(kyma *v1beta2.Kyma) bool {
	status := kyma.Status.Runtime
	if !kyma.DeletionTimestamp.IsZero() || kyma.Status.State != v1beta2.StateReady || !status.HasAppliedNewest() {
		return false
	}
	return status.Takeover == nil || status.Takeover.Done == status.Takeover.Published
}
