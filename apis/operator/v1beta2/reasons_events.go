package v1beta2

// Reasons of Events on a Kyma of the control plane, of what happened to its runtime; those that conditions have too are
// ReasonEnrolled, ReasonApplied (the runtime has other versions than before and is not Ready with them yet),
// ReasonRolledBack (a bundle takes modules back to older versions) and ReasonReady. Each is told once, when the status
// that says so was written.
const (
	// ReasonPublished is of an Event on a Kyma: a bundle asks for other modules or versions than the one before. The
	// message says which. It is of Ready on a Watcher, too: the bundles of all runtimes ask for it.
	ReasonPublished = "Published"
	// ReasonFailed is of an Event of type Warning: the state became Error, or Warning from anything better. The message is
	// that of condition Ready.
	ReasonFailed = "Failed"
	// ReasonRuntimeSilent is of a Kyma whose runtime was not heard for longer than allowed.
	ReasonRuntimeSilent = "RuntimeSilent"
	// ReasonRuntimeHeard is of a Kyma whose runtime was silent and reports again.
	ReasonRuntimeHeard = "RuntimeHeard"
	// ReasonRootExpires is of the publisher's Lease: the root of trust expires soon, or has expired.
	ReasonRootExpires = "RootExpires"
)

// Reasons of the one Event on a Kyma that is deleted, when its finalizer is removed.
const (
	// ReasonRuntimeEmpty is of an Event on a deleted Kyma that goes: its runtime has reported that all modules are
	// removed.
	ReasonRuntimeEmpty = "RuntimeEmpty"
	// ReasonHandedOver is of an Event on a deleted Kyma that is finalized: its runtime belongs to another Kyma or control
	// plane, and keeps its modules.
	ReasonHandedOver = "HandedOver"
	// ReasonCloneDetected is of an Event of type Warning on a Kyma whose runtime's key two agents use.
	ReasonCloneDetected = "CloneDetected"
	// ReasonRuntimeGone is of an Event on a deleted Kyma that goes: LabelRuntimeGone says that the runtime's cluster does
	// not exist any more.
	ReasonRuntimeGone = "RuntimeGone"
	// ReasonDeletionForced is of an Event of type Warning on a deleted Kyma that goes: LabelForceDeletion says not to wait
	// for the runtime, which may still have modules.
	ReasonDeletionForced = "DeletionForced"
	// ReasonRuntimeNeverReported is of an Event of type Warning on a deleted Kyma that goes: no report of its runtime was
	// ever accepted, so that there is nothing to wait for.
	ReasonRuntimeNeverReported = "RuntimeNeverReported"
	// ReasonDeletionTimeout is of an Event of type Warning on a deleted Kyma that goes: its runtime did not report to be
	// empty within the publisher's --deletion-timeout, and may still have modules.
	ReasonDeletionTimeout = "DeletionTimeout"
	// ReasonNothingToRemove is of an Event of type Warning on a deleted Kyma that goes: nothing was ever published for it,
	// and nothing may be, such as where its runtime is another Kyma's.
	ReasonNothingToRemove = "NothingToRemove"
)

// Reasons of what a Watcher asks for.
const (
	// ReasonRefused is of Ready on a Watcher: no runtime is asked to watch for it. The message says what to correct.
	ReasonRefused = "Refused"
	// ReasonWatchedObjectChanged is of an Event on a Kyma: the runtime reported that an object changed that a Watcher asks
	// for. The message names the Watcher and the object.
	ReasonWatchedObjectChanged = "WatchedObjectChanged"
	// ReasonWatchFailed is of an Event of type Warning on a Kyma: the runtime cannot watch what a Watcher asks for. The
	// message says why.
	ReasonWatchFailed = "WatchFailed"
)

// Reasons of Events on objects of the control plane that have no condition for it.
const (
	// ReasonFinalizerKept is of an Event on a deleted ModuleReleaseMeta, ModuleTemplate or Watcher: lifecycle-manager's
	// finalizer stays, because it has Manifests of the module in the control plane or because the publisher may not remove
	// it. The message says which.
	ReasonFinalizerKept = "FinalizerKept"
	// ReasonLeftOut is of an Event of type Warning on a ModuleTemplate or ModuleReleaseMeta: no bundle carries the object,
	// because agents would refuse the bundle or because the object contains a secret. All other modules are published. The
	// message names the field.
	ReasonLeftOut = "LeftOut"
)
