package readiness

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// workloadState returns the state of an object of a built-in kind if kstatus's result would mislead users, for example
// for a running Job. ok is false for other objects.
func workloadState(s Observation) (state v1beta2.State, message string, ok bool) {
	o := s.Object
	if o.GetDeletionTimestamp() != nil {
		return "", "", false
	}
	switch o.GroupVersionKind().GroupKind() {
	case object.JobKind:
		state, message = jobState(o)
		return state, message, true
	case object.PodKind:
		if object.Text(o, "status", "phase") == "Failed" {
			return v1beta2.StateError, "Pod has failed: " + object.Text(o, "status", "reason"), true
		}
	case object.ClaimKind:
		if s.WaitsForPod && IsUnclaimed(o) {
			return v1beta2.StateReady, "waiting for the first Pod that uses the claim", true
		}
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return pausedState(o)
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return onDeleteState(o)
	case object.ReplicationControllerKind:
		return replicationState(o)
	case object.APIServiceKind:
		return apiServiceState(o)
	}
	return "", "", false
}

// apiServiceState returns Processing until an APIService's server responds. kstatus ignores an APIService's status.
//
// Source: Kubernetes API reference, APIServiceStatus: condition Available.
func apiServiceState(o *unstructured.Unstructured) (state v1beta2.State, message string, ok bool) {
	if service, _, _ := unstructured.NestedMap(o.Object, "spec", "service"); service == nil || IsTrue(o, "Available") {
		return "", "", false
	}
	return v1beta2.StateProcessing, cmp.Or(messageOf(o, "Available"), "APIService is not available yet"), true
}

// jobState returns Processing until a Job has completed. kstatus returns Current as soon as a Job has started.
//
// Source: Kubernetes documentation, Jobs: terminal conditions, controlling parallelism, suspending a Job.
func jobState(o *unstructured.Unstructured) (v1beta2.State, string) {
	wanted := object.Integer(o, 1, "spec", "parallelism")
	wanted = object.Integer(o, wanted, "spec", "completions")
	done, active := object.Integer(o, 0, "status", "succeeded"), object.Integer(o, 0, "status", "active")
	suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend")
	switch {
	case IsTrue(o, "Complete"):
		return v1beta2.StateReady, fmt.Sprintf("Job has completed: %d of %d Pods", done, wanted)
	case IsTrue(o, "Failed"):
		return v1beta2.StateError, fmt.Sprintf("Job has failed: %d Pods failed", object.Integer(o, 0, "status", "failed"))
	case suspended:
		return v1beta2.StateReady, "Job is suspended"
	case object.Integer(o, 1, "spec", "parallelism") == 0:
		return v1beta2.StateReady, "Job is paused: its parallelism is 0"
	case object.Text(o, "status", "startTime") == "":
		return v1beta2.StateProcessing, "Job has not started"
	}
	return v1beta2.StateProcessing,
		fmt.Sprintf("Job is running: %d of %d Pods have completed, %d are active", done, wanted, active)
}

// pausedState returns the state of a paused Deployment. It depends only on the Pods that exist, because Kubernetes does
// not roll out a paused Deployment.
//
// Source: Kubernetes documentation, Deployments: pausing and resuming a rollout.
func pausedState(o *unstructured.Unstructured) (state v1beta2.State, message string, ok bool) {
	paused, _, _ := unstructured.NestedBool(o.Object, "spec", "paused")
	if !paused || !isObserved(o) {
		return "", "", false
	}
	pods, available := object.Integer(o, 0, "status", "replicas"), object.Integer(o, 0, "status", "availableReplicas")
	if available < pods {
		return v1beta2.StateProcessing,
			fmt.Sprintf("Deployment is paused, %d of %d Pods are available", available, pods), true
	}
	return v1beta2.StateReady, "Deployment is paused", true
}

// onDeleteState returns the state of a DaemonSet or StatefulSet with the update strategy OnDelete. Pods with an older
// revision count as ready, because the controller waits until a user deletes them.
//
// Source: Kubernetes documentation, DaemonSet update strategy and StatefulSet update strategies: OnDelete.
func onDeleteState(o *unstructured.Unstructured) (state v1beta2.State, message string, ok bool) {
	if object.Text(o, "spec", "updateStrategy", "type") != "OnDelete" || !isObserved(o) {
		return "", "", false
	}
	wanted, ready := object.Integer(o, 1, "spec", "replicas"), object.Integer(o, 0, "status", "readyReplicas")
	if o.GetKind() == "DaemonSet" {
		wanted = object.Integer(o, -1, "status", "desiredNumberScheduled")
		ready = object.Integer(o, 0, "status", "numberAvailable")
		if wanted < 0 {
			return "", "", false
		}
	}
	if ready < wanted {
		return v1beta2.StateProcessing, fmt.Sprintf("Ready: %d/%d", ready, wanted), true
	}
	return v1beta2.StateReady, "Pods are replaced when a user deletes them (OnDelete)", true
}

// replicationState returns the state of a ReplicationController. kstatus returns Current for it in every state.
//
// Source: Kubernetes API reference, ReplicationControllerStatus.
func replicationState(o *unstructured.Unstructured) (state v1beta2.State, message string, ok bool) {
	wanted := object.Integer(o, 1, "spec", "replicas")
	available := object.Integer(o, 0, "status", "availableReplicas")
	if !isObserved(o) || available < wanted {
		return v1beta2.StateProcessing, fmt.Sprintf("Available: %d/%d", available, wanted), true
	}
	return "", "", false
}

// annotationSelectedNode is set by the scheduler on a PersistentVolumeClaim whose Pod is scheduled.
//
// Source: Kubernetes, k8s.io/component-helpers/storage/volume, AnnSelectedNode.
const annotationSelectedNode = "volume.kubernetes.io/selected-node"

// IsUnclaimed reports whether a PersistentVolumeClaim is pending because no Pod that uses it is scheduled yet. A claim
// that names its volume does not wait for a Pod.
func IsUnclaimed(o *unstructured.Unstructured) bool {
	return object.Text(o, "status", "phase") == "Pending" && object.Text(o, "spec", "volumeName") == "" &&
		o.GetAnnotations()[annotationSelectedNode] == ""
}

// annotationStorageClass contains a PersistentVolumeClaim's StorageClass. It takes precedence over the field
// storageClassName.
//
// Source: Kubernetes, k8s.io/component-helpers/storage/volume, GetPersistentVolumeClaimClass.
const annotationStorageClass = "volume.beta.kubernetes.io/storage-class"

// StorageClass returns a PersistentVolumeClaim's StorageClass, or "" if it has none.
func StorageClass(o *unstructured.Unstructured) string {
	if class, found := o.GetAnnotations()[annotationStorageClass]; found {
		return class
	}
	return object.Text(o, "spec", "storageClassName")
}

// isObserved reports whether a controller has processed an object's latest spec.
func isObserved(o *unstructured.Unstructured) bool {
	return object.Integer(o, 0, "status", "observedGeneration") >= o.GetGeneration() && o.GetGeneration() > 0
}

// IsTrue reports whether a condition on an object has status True.
func IsTrue(o *unstructured.Unstructured, condition string) bool {
	return conditionOf(o, condition)["status"] == "True"
}

func messageOf(o *unstructured.Unstructured, condition string) string {
	message, _ := conditionOf(o, condition)["message"].(string)
	return message
}

// conditionOf returns a condition on an object, or nil if the object does not have it.
func conditionOf(o *unstructured.Unstructured, kind string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, _ := c.(map[string]any); condition["type"] == kind {
			return condition
		}
	}
	return nil
}
