package readiness

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
)

// Observation is the observed state of one object that determines a module's status.
type Observation struct {
	guard.Key
	Object *unstructured.Unstructured // nil if the object does not exist
	// Checks maps values of the object's fields to states. If empty, the object's status is used instead.
	Checks []v1beta2.CustomStateCheck
	// KnownReady is true if the object was ready and is unchanged since then.
	KnownReady bool
	// Completed is true if the Job completed for the module's version and was then deleted.
	Completed bool
	// WaitsForPod is true if the PersistentVolumeClaim is bound only when a Pod uses it.
	WaitsForPod bool
	// Unreadable is the API server's error for an object that cannot be read.
	Unreadable string
}
