package v1beta2

// Reasons of Events on a Kyma of the control plane, of what happened to its runtime; those that conditions have too are ReasonEnrolled, ReasonApplied (the
// runtime has other versions than before and is not Ready with them yet), ReasonRolledBack (a bundle takes modules back to older versions) and ReasonReady.
// Each is told once, when the status that says so was written.
const (
	// ReasonPublished is of an Event: a bundle asks for other modules or versions than the one before. The message says which.
	ReasonPublished = "Published"
	// ReasonFailed is of an Event of type Warning: the state became Error, or Warning from anything better. The message is that of condition Ready.
	ReasonFailed = "Failed"
	// ReasonRuntimeSilent is of a Kyma whose runtime was not heard for longer than allowed.
	ReasonRuntimeSilent = "RuntimeSilent"
	// ReasonRuntimeHeard is of a Kyma whose runtime was silent and reports again.
	ReasonRuntimeHeard = "RuntimeHeard"
	// ReasonRootExpires is of the publisher's Lease: the root of trust expires soon, or has expired.
	ReasonRootExpires = "RootExpires"
)

// Reasons of Events on objects of the control plane that have no condition for it.
const (
	// ReasonFinalizerKept is of an Event on a deleted ModuleReleaseMeta, ModuleTemplate or Watcher: lifecycle-manager's finalizer stays, because it
	// has Manifests of the module in the control plane or because the publisher may not remove it. The message says which.
	ReasonFinalizerKept = "FinalizerKept"
)
