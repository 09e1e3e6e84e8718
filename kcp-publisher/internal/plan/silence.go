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
