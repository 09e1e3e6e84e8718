package ingest

import (
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// notedFor and notedSpread are how long a status without news stays unwritten. The spread keeps a fleet that was
// written at once from being written at once again. Their sum is less than plan.MaxUnnoted, which other packages rely
// on.
const (
	notedFor    = 18 * time.Hour
	notedSpread = 5 * time.Hour
)

// Notable reports whether a status must be written: it differs from the stored one, or the stored report time is too
// old.
func Notable(before, after v1beta2.KymaStatus) bool {
	was, is := before.Runtime, after.Runtime
	if was != nil && was.Observed != nil && was.Observed.Heard != nil && is != nil && is.Observed != nil &&
		is.Observed.Heard != nil {
		if !is.Observed.Heard.Time.Before(NotedUntil(before)) {
			return true
		}
		runtime, observed := *is, *is.Observed
		observed.Time, observed.Heard, runtime.ReportSequence = was.Observed.Time, was.Observed.Heard,
			was.ReportSequence
		runtime.Observed, after.Runtime = &observed, &runtime
	}
	return !equality.Semantic.DeepEqual(before, after)
}

// NotedUntil returns when the report time must be written again, zero for a runtime that never reported.
func NotedUntil(status v1beta2.KymaStatus) time.Time {
	if status.Runtime == nil || status.Runtime.Observed == nil || status.Runtime.Observed.Heard == nil {
		return time.Time{}
	}
	sum := fnv.New32a()
	sum.Write([]byte(status.Runtime.ID))
	return status.Runtime.Observed.Heard.Add(notedFor + notedSpread*time.Duration(sum.Sum32()%1000)/1000)
}

// Arrived returns when a report arrived. Another publisher may have read a report that this one finds at its start, and
// not recorded it because it had no news. Such a report arrived when it was written, if that is between the recorded
// report and now. The recorded report shows the offset of the runtime's clock.
func Arrived(before *v1beta2.RuntimeStatus, report bundle.AcceptedReport, first bool, now time.Time) time.Time {
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
