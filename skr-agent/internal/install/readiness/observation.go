package readiness

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// Observation is the observed state of one object that determines a module's status.
type Observation struct {
	guard.Key
	Object *unstructured.Unstructured // nil if the object does not exist
	// Checks maps values of the object's fields to states. If empty, the object's status is used instead.
	Checks []v1beta2.CustomStateCheck
	// KnownReady is true if the object was ready and is unchanged since then.
	KnownReady bool
	// Completed is true if the Job or Pod completed for the module's version and was then deleted.
	Completed bool
	// WaitsForPod is true if the PersistentVolumeClaim is bound only when a Pod uses it.
	WaitsForPod bool
	// Unreadable is the API server's error for an object that cannot be read.
	Unreadable string
}

// CompletedPods returns the observed Pods that completed. A Pod that is being deleted does not count, because its
// containers can end without an error when they are stopped.
func CompletedPods(seen []Observation) object.Keys {
	completed := object.Keys{}
	for _, s := range seen {
		if s.GroupKind() == object.PodKind && s.Object != nil && s.Object.GetDeletionTimestamp() == nil &&
			object.Text(s.Object, "status", "phase") == "Succeeded" {
			completed[s.Key] = struct{}{}
		}
	}
	return completed
}
