package plan

import (
	"fmt"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

const (
	// carriedSilence is how long reports that are carried by hand may be missing when nobody says otherwise: a season at sea.
	carriedSilence = 90 * 24 * time.Hour
	// maxCarriedSilence is how long they may be missing at most: bundles are valid as long, and whoever keeps one back keeps it that long.
	maxCarriedSilence = 366 * 24 * time.Hour
)

// Heard returns when a runtime was last heard: when its report reached the control plane, by the control plane's clock. A report that is
// carried by hand tells of the time when it was written; where its runtime's clock is ahead, that is no later than its arrival. The zero time
// stands for never.
func Heard(kyma *v1beta2.Kyma) time.Time {
	if r := kyma.Status.Runtime; r != nil && r.Observed != nil {
		return HeardOf(*r.Observed, carried(kyma))
	}
	return time.Time{}
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
		return r.Silence, false, fmt.Errorf("annotation %s: %q: want true, or a duration such as 2160h, at most %.0fh", v1beta2.AnnotationCarried, annotation, maxCarriedSilence.Hours())
	}
	return allowed, true, nil
}
