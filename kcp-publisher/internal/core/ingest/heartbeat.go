package ingest

import (
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// notedFor and notedSpread are how long a status stands while a runtime reports nothing new: a fleet that was written
// at once is not written at once again. Together they are less than plan.MaxUnnoted, which others count on.
const (
	notedFor    = 18 * time.Hour
	notedSpread = 5 * time.Hour
)

// Notable reports whether a status has to be written: it says something else than when the runtime was heard, or that
// was noted long ago.
func Notable(before, after v1beta2.KymaStatus) bool {
	was, is := before.Runtime, after.Runtime
	if was != nil && was.Observed != nil && was.Observed.Heard != nil && is != nil && is.Observed != nil && is.Observed.Heard != nil {
		if !is.Observed.Heard.Time.Before(NotedUntil(before)) {
			return true
		}
		runtime, observed := *is, *is.Observed
		observed.Time, observed.Heard, runtime.ReportSequence = was.Observed.Time, was.Observed.Heard, was.ReportSequence
		runtime.Observed, after.Runtime = &observed, &runtime
	}
	return !equality.Semantic.DeepEqual(before, after)
}

// NotedUntil returns from when on a status has to be written again because its runtime was heard, the zero time where
// it never was.
func NotedUntil(status v1beta2.KymaStatus) time.Time {
	if status.Runtime == nil || status.Runtime.Observed == nil || status.Runtime.Observed.Heard == nil {
		return time.Time{}
	}
	sum := fnv.New32a()
	sum.Write([]byte(status.Runtime.ID))
	return status.Runtime.Observed.Heard.Add(notedFor + notedSpread*time.Duration(sum.Sum32()%1000)/1000)
}

// Arrived returns when a report arrived that is seen now. One that is found at the first look of a publisher may have
// been read by another one, which noted nothing because it said nothing new: it arrived when it was written, so far as
// that is between what is noted and now. How far the clock of the runtime is off is known from the report that is
// noted.
func Arrived(before *v1beta2.RuntimeStatus, report bundle.AcceptedReport, first bool, now time.Time) time.Time {
	if before == nil || before.Observed == nil || report.Enrolled {
		return now
	}
	if !first || before.Observed.Heard == nil || report.Sequence <= before.ReportSequence {
		return heard(*before, report, now).Time
	}
	noted := before.Observed.Heard.Time
	at := report.Time.Add(noted.Sub(before.Observed.Time.Time))
	if at.Before(noted) {
		at = noted
	}
	return earliest(at, now)
}
