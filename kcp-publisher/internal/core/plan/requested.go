package plan

import (
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// maxRequestBytes limits the annotation value in the status, as the CRD does.
const maxRequestBytes = 64

// Requested returns the annotation value that requests a reconcile of a Kyma. It is empty if no reconcile was requested
// or the request was handled.
func Requested(kyma *v1beta2.Kyma) string {
	value := bundle.Bounded(kyma.Annotations[v1beta2.AnnotationReconcileRequested], maxRequestBytes)
	if value == kyma.Status.LastHandledReconcileAt {
		return ""
	}
	return value
}
