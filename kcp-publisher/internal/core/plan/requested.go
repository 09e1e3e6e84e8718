package plan

import (
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// maxRequestBytes bounds what a status repeats of an annotation, as its definition does.
const maxRequestBytes = 64

// Requested returns the value by which somebody asks for a look at a Kyma now, empty where nobody does or it was
// handled.
func Requested(kyma *v1beta2.Kyma) string {
	value := bundle.Bounded(kyma.Annotations[v1beta2.AnnotationReconcileRequested], maxRequestBytes)
	if value == kyma.Status.LastHandledReconcileAt {
		return ""
	}
	return value
}
