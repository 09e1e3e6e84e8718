package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// MaxUnrecorded is the maximum time between two updates of the report time in the Kyma's status while a runtime
// reports.
const MaxUnrecorded = 24 * time.Hour

// recordTolerance is added to MaxUnrecorded, because a publisher may update the report time late.
const recordTolerance = time.Hour

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

// HasCurrentReport reports whether the condition Reporting shows that the runtime's last report is not older than
// allowed. The runtime may have sent this report, or an operator may have carried it by hand.
func HasCurrentReport(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1beta2.ConditionReporting)
}

// IsReporting is like HasCurrentReport, but returns false if an operator carries the reports by hand.
func IsReporting(kyma *v1beta2.Kyma) bool {
	reporting := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReporting)
	return HasCurrentReport(kyma.Status.Conditions) && reporting.Reason != v1beta2.ReasonCarried
}

// IsSilent reports whether the condition Reporting shows that the runtime's last report is older than allowed.
func IsSilent(conditions []metav1.Condition) bool {
	reporting := meta.FindStatusCondition(conditions, v1beta2.ConditionReporting)
	return reporting != nil && reporting.Status == metav1.ConditionFalse && reporting.Reason == v1beta2.ReasonSilent
}

// RecordedReport returns the time of the last report according to the Kyma's status, for callers that do not read
// reports. A publisher may have received later reports, but it updates the time in the status at least once every
// MaxUnrecorded.
func RecordedReport(kyma *v1beta2.Kyma) silence.LastReport {
	last := silence.LastReport{KnownAt: LastReportTime(kyma)}
	if !last.KnownAt.IsZero() {
		last.PossibleAt = last.KnownAt.Add(MaxUnrecorded)
	}
	return last
}

// IsOutdated reports whether the Kyma's status shows that the runtime reports, although no publisher can have updated
// this status recently. The status then does not show whether the runtime still reports.
func IsOutdated(kyma *v1beta2.Kyma, now time.Time) bool {
	return IsReporting(kyma) && !isCarried(kyma) && RecordedReport(kyma).State(recordTolerance, now) == silence.Silent
}

// ShowsReporting is like HasCurrentReport, but returns false if the Kyma's status is outdated.
func ShowsReporting(kyma *v1beta2.Kyma, now time.Time) bool {
	return HasCurrentReport(kyma.Status.Conditions) && !IsOutdated(kyma, now)
}

// OutdatedAfter returns the time after which IsOutdated can return true if the Kyma's status does not change.
func OutdatedAfter(kyma *v1beta2.Kyma) time.Time {
	return RecordedReport(kyma).SilentAfter(recordTolerance)
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

// maxRequestBytes limits the length of the annotation that requests a reconcile. The publisher copies the value to a
// status field, which has the same limit in the CRD.
const maxRequestBytes = 64

// ReconcileRequest returns the value of the annotation that requests a reconcile. It returns "" if the publisher has
// already handled this request.
func ReconcileRequest(kyma *v1beta2.Kyma) string {
	value := bundle.Bounded(kyma.Annotations[v1beta2.AnnotationReconcileRequested], maxRequestBytes)
	if value == kyma.Status.LastHandledReconcileAt {
		return ""
	}
	return value
}

func isCarried(kyma *v1beta2.Kyma) bool {
	_, carried, err := Rules{}.SilenceTimeoutFor(kyma)
	return carried && err == nil
}

// SilenceTimeoutFor returns the time without a report after which a Kyma's runtime counts as silent. carried is true if
// an operator carries bundles and reports by hand. If the duration in the Kyma's annotation is invalid, it returns the
// default and an error.
func (r Rules) SilenceTimeoutFor(kyma *v1beta2.Kyma) (silence time.Duration, carried bool, err error) {
	annotation := kyma.Annotations[v1beta2.AnnotationCarried]
	switch annotation {
	case "", v1beta2.False:
		return r.SilenceTimeout, false, nil
	case v1beta2.True:
		return carriedSilence, true, nil
	}
	allowed, err := time.ParseDuration(annotation)
	if err != nil || allowed <= 0 || allowed > maxCarriedSilence {
		return r.SilenceTimeout, false,
			reason.Errorf(reason.AnnotationInvalid,
				"annotation %s: %q must be true, or a duration such as 2160h, at most %.0fh", v1beta2.AnnotationCarried,
				annotation, maxCarriedSilence.Hours())
	}
	return allowed, true, nil
}

const (
	// carriedSilence is the default silence timeout of a runtime if an operator carries its reports by hand.
	carriedSilence = 90 * 24 * time.Hour
	// maxCarriedSilence is the maximum silence timeout in an annotation. It also limits the validity of bundles that an
	// operator carries by hand, to 549 days, because an attacker could withhold a newer bundle until the old one
	// expires.
	maxCarriedSilence = 366 * 24 * time.Hour
)
