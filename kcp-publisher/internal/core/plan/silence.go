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
	// carriedSilence is how long reports that are carried by hand may be missing when nobody says otherwise: a season at
	// sea.
	carriedSilence = 90 * 24 * time.Hour
	// maxCarriedSilence is how long they may be missing at most: bundles are valid as long, and whoever keeps one back
	// keeps it that long.
	maxCarriedSilence = 366 * 24 * time.Hour
)

// MaxUnnoted is how long at most a runtime is heard without anything being written: a report that says nothing new is
// noted once a day.
const MaxUnnoted = 24 * time.Hour

// Received is a report that a publisher accepted.
type Received struct {
	Made, Arrived time.Time
	// Recorded is whether the Kyma's status follows from it.
	Recorded bool
}

// LastReport returns the time of the last report of a Kyma's runtime: of the one in its status, or of one that a
// publisher received since, nil for none. Since is from when on another publisher may have received a report without
// recording it, zero if the report was asked for.
//
// A received report counts once the status follows from it: otherwise the content that is not recorded yet would look
// like a failure. Until then, the runtime may have reported. A report that is refused may never be recorded, and does
// not count.
func LastReport(kyma *v1beta2.Kyma, received *Received, since time.Time) silence.LastReport {
	last := silence.LastReport{At: Heard(kyma)}
	if !since.IsZero() {
		last.Possible = Unnoted(kyma, since)
	}
	if received == nil {
		return last
	}
	at := HeardIn(kyma, v1beta2.ObservedBundle{Time: metav1.NewTime(received.Made), Heard: new(metav1.NewTime(received.Arrived))})
	switch {
	case !at.After(last.At):
	case received.Recorded:
		last.At = at
	case at.After(last.Possible) && !RefusedReport(kyma):
		last.Possible = at
	}
	return last
}

// RefusedReport reports whether the status of a Kyma says that its latest report is refused.
func RefusedReport(kyma *v1beta2.Kyma) bool {
	reporting := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReporting)
	return reporting != nil && reporting.Reason == v1beta2.ReasonReportRefused
}

// Unnoted returns until when another publisher may have heard a Kyma's runtime without noting it, where this one began
// at a time and has not looked for its report yet.
func Unnoted(kyma *v1beta2.Kyma, began time.Time) time.Time {
	r := kyma.Status.Runtime
	if r == nil || r.Observed == nil || r.Observed.Heard == nil || carried(kyma) {
		return time.Time{} // nothing was heard; of what is carried, each report is noted
	}
	if last := r.Observed.Heard.Add(MaxUnnoted); last.Before(began) {
		return last
	}
	return began
}

// Heard returns when a runtime was last heard: when its report reached the control plane, by the control plane's clock.
// A report that is carried by hand tells of the time when it was written; where its runtime's clock is ahead, that is
// no later than its arrival. The zero time stands for never.
func Heard(kyma *v1beta2.Kyma) time.Time {
	if r := kyma.Status.Runtime; r != nil && r.Observed != nil {
		return HeardIn(kyma, *r.Observed)
	}
	return time.Time{}
}

// Reports reports whether a runtime is heard by what its Kyma's condition says: the time in the status is noted once a
// day. Reports that are carried by hand say nothing of now.
func Reports(kyma *v1beta2.Kyma) bool {
	reporting := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReporting)
	return reporting != nil && reporting.Status == metav1.ConditionTrue && reporting.Reason != v1beta2.ReasonCarried
}

// HeardIn is Heard for what was observed of a Kyma's runtime and may not be in its status.
func HeardIn(kyma *v1beta2.Kyma, observed v1beta2.ObservedBundle) time.Time {
	return HeardOf(observed, carried(kyma))
}

// HeardOf is Heard for what was observed of a runtime whose reports are carried by hand, or not.
func HeardOf(observed v1beta2.ObservedBundle, carried bool) time.Time {
	if observed.Heard == nil || carried && observed.Time.Before(observed.Heard) {
		return observed.Time.Time // also where a publisher wrote it that did not note the arrival
	}
	return observed.Heard.Time
}

func carried(kyma *v1beta2.Kyma) bool {
	_, carried, err := Rules{}.Allowed(kyma)
	return carried && err == nil
}

// Allowed returns how long a Kyma's runtime may be silent, and whether its bundles and reports are carried by hand. A
// duration that cannot be read is as good as none, and the error says so.
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
		return r.Silence, false, reason.Errorf(reason.AnnotationInvalid, "annotation %s: %q: want true, or a duration such as 2160h, at most %.0fh", v1beta2.AnnotationCarried, annotation, maxCarriedSilence.Hours())
	}
	return allowed, true, nil
}
