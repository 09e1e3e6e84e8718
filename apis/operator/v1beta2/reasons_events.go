package v1beta2

// Reasons of Events on objects of the control plane that have no condition for it.
const (
	// ReasonFinalizerKept is of an Event on a deleted ModuleReleaseMeta, ModuleTemplate or Watcher: lifecycle-manager's finalizer stays, because it
	// has Manifests of the module in the control plane or because the publisher may not remove it. The message says which.
	ReasonFinalizerKept = "FinalizerKept"
)
