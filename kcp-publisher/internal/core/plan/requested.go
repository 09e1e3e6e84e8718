package plan

import (
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// maxRequestBytes limits the length of the annotation that requests a reconcile. The CRD has the same limit for the
// status field to which the publisher copies the value.
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
