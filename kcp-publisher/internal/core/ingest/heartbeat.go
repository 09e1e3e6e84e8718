package ingest

import (
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// If only the time of the last report has changed, the status is updated after updateDelay plus a part of updateSpread.
// The part depends on the runtime ID, so that updates are spread over time. The sum must be less than
// plan.MaxUnrecorded.
const (
	// If only the time of the last report has changed, the status is updated after updateDelay plus a part of
	// updateSpread. The part depends on the runtime ID, so that updates are spread over time. The sum must be less than
	// plan.MaxUnrecorded.
	updateDelay  = 18 * time.Hour
	updateSpread = 5 * time.Hour
)

// NeedsUpdate reports whether the status after must be written. This is the case if it differs from the status before,
// or if the report time in the status before is too old.
func NeedsUpdate(before, after v1beta2.KymaStatus) bool {
	was, is := before.Runtime, after.Runtime
	if was != nil && was.Observed != nil && was.Observed.Heard != nil && is != nil && is.Observed != nil &&
		is.Observed.Heard != nil {
		if !is.Observed.Heard.Time.Before(NextUpdate(before)) {
			return true
		}
		runtime, observed := *is, *is.Observed
		observed.Time, observed.Heard, runtime.ReportSequence = was.Observed.Time, was.Observed.Heard,
			was.ReportSequence
		runtime.Observed, after.Runtime = &observed, &runtime
	}
	return !equality.Semantic.DeepEqual(before, after)
}

// NextUpdate returns the time at which the status must be written even if only the time of the last report has changed.
// It returns zero if the runtime has never reported.
func NextUpdate(status v1beta2.KymaStatus) time.Time {
	if status.Runtime == nil || status.Runtime.Observed == nil || status.Runtime.Observed.Heard == nil {
		return time.Time{}
	}
	sum := fnv.New32a()
	sum.Write([]byte(status.Runtime.ID))
	return status.Runtime.Observed.Heard.Add(updateDelay + updateSpread*time.Duration(sum.Sum32()%1000)/1000)
}

// ArrivalTime returns the time at which a report arrived. Another publisher may have received a report before this
// publisher started. Therefore, for the first report that this publisher reads, ArrivalTime computes the arrival time
// from the report's creation time.
func ArrivalTime(before *v1beta2.RuntimeStatus, report bundle.AcceptedReport, first bool, now time.Time) time.Time {
	if before == nil || before.Observed == nil || report.Enrolled {
		return now
	}
	if !first || before.Observed.Heard == nil || report.Sequence <= before.ReportSequence {
		return lastReportTime(*before, report, now).Time
	}
	noted := before.Observed.Heard.Time
	at := report.Time.Add(noted.Sub(before.Observed.Time.Time))
	if at.Before(noted) {
		at = noted
	}
	return earliest(at, now)
}
