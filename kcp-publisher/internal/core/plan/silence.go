package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

const (
	// carriedSilence is how long reports that are carried by hand may be missing when nobody says otherwise: a season at sea.
	carriedSilence = 90 * 24 * time.Hour
	// maxCarriedSilence is how long they may be missing at most: bundles are valid as long, and whoever keeps one back keeps it that long.
	maxCarriedSilence = 366 * 24 * time.Hour
)

// MaxUnnoted is how long at most a runtime is heard without anything being written: a report that says nothing new is noted once a day.
const MaxUnnoted = 24 * time.Hour

// Hearing is what is known of when a runtime was heard.
type Hearing struct {
	// At is when it was heard last, zero for never.
	At time.Time
	// Unnoted is until when another publisher may have heard it without noting it, zero where that is not so: its report was looked for since.
	Unnoted time.Time
}

// Unsure reports whether a runtime is silent for too long by what was noted, and may have been heard since.
func (h Hearing) Unsure(now time.Time, allowed time.Duration) bool {
	return !h.At.IsZero() && now.Sub(h.At) > allowed && !h.Unnoted.IsZero() && now.Sub(h.Unnoted) <= allowed
}

// Unnoted returns until when another publisher may have heard a Kyma's runtime without noting it, where this one began at a time and has not
// looked for its report yet.
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

// Heard returns when a runtime was last heard: when its report reached the control plane, by the control plane's clock. A report that is
// carried by hand tells of the time when it was written; where its runtime's clock is ahead, that is no later than its arrival. The zero time
// stands for never.
func Heard(kyma *v1beta2.Kyma) time.Time {
	if r := kyma.Status.Runtime; r != nil && r.Observed != nil {
		return HeardIn(kyma, *r.Observed)
	}
	return time.Time{}
}

// Reports reports whether a runtime is heard by what its Kyma's condition says: the time in the status is noted once a day. Reports that are
// carried by hand say nothing of now.
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

// Allowed returns how long a Kyma's runtime may be silent, and whether its bundles and reports are carried by hand. A duration that
// cannot be read is as good as none, and the error says so.
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
