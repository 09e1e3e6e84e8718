package v1beta2

// Reasons for Events on a Kyma in the control plane about its runtime. Such Events also use condition reasons:
// ReasonEnrolled, ReasonApplied (the runtime has applied new module versions but is not Ready yet), ReasonRolledBack (a
// bundle returns modules to older versions) and ReasonReady. The publisher emits each Event once, after it has written
// the corresponding status.
const (
	// ReasonPublished is the reason for an Event on a Kyma: a new bundle changes modules or versions. The message names
	// the changes. It is also a reason for the condition Ready on a Watcher: all runtimes' bundles contain the Watcher.
	ReasonPublished = "Published"
	// ReasonFailed is the reason for a Warning Event: the state changed to Error, or from a better state to Warning.
	// The Event has the same message as condition Ready.
	ReasonFailed = "Failed"
	// ReasonRuntimeSilent means that no report from the runtime was received within the allowed silence.
	ReasonRuntimeSilent = "RuntimeSilent"
	// ReasonRuntimeHeard means that a silent runtime reports again.
	ReasonRuntimeHeard = "RuntimeHeard"
	// ReasonRootExpires is the reason for an Event on the publisher's Lease: the root of trust expires soon, or has
	// expired.
	ReasonRootExpires = "RootExpires"
)

// Reasons for the Event that is emitted when a deleted Kyma's finalizer is removed.
const (
	// ReasonRuntimeEmpty means that the runtime has reported that all modules are removed.
	ReasonRuntimeEmpty = "RuntimeEmpty"
	// ReasonHandedOver means that the runtime belongs to another Kyma or control plane and keeps its modules.
	ReasonHandedOver = "HandedOver"
	// ReasonCloneDetected is the reason for a Warning Event on a Kyma: two agents use the key of its runtime.
	ReasonCloneDetected = "CloneDetected"
	// ReasonRuntimeGone means that an operator set LabelRuntimeGone, because the runtime's cluster no longer exists.
	ReasonRuntimeGone = "RuntimeGone"
	// ReasonDeletionForced is the reason for a Warning Event: LabelForceDeletion ended the wait for the runtime. The
	// runtime could still have modules.
	ReasonDeletionForced = "DeletionForced"
	// ReasonRuntimeNeverReported is the reason for a Warning Event: no report from the runtime was ever accepted, so
	// the publisher did not wait for the runtime.
	ReasonRuntimeNeverReported = "RuntimeNeverReported"
	// ReasonDeletionTimeout is the reason for a Warning Event: the runtime did not report that all modules were removed
	// within the publisher's setting deletion-timeout. The runtime could still have modules.
	ReasonDeletionTimeout = "DeletionTimeout"
	// ReasonNothingToRemove is the reason for a Warning Event: no bundle was ever published for the Kyma, and no bundle
	// can be published, for example because its runtime belongs to another Kyma.
	ReasonNothingToRemove = "NothingToRemove"
)

// Reasons for conditions and Events about Watchers.
const (
	// ReasonRefused is a reason for the condition Ready on a Watcher: no bundle contains the Watcher. The message
	// contains the problem and the fix.
	ReasonRefused = "Refused"
	// ReasonWatchedObjectChanged is the reason for an Event on a Kyma: the runtime reported a change to an object that
	// a Watcher selects. The message contains the Watcher and the object.
	ReasonWatchedObjectChanged = "WatchedObjectChanged"
	// ReasonWatchFailed is the reason for a Warning Event on a Kyma: the runtime cannot watch a Watcher's resource. The
	// message describes the cause.
	ReasonWatchFailed = "WatchFailed"
)

// Reasons for Events on control plane objects. Conditions do not use these reasons.
const (
	// ReasonFinalizerKept is the reason for an Event on a deleted ModuleReleaseMeta, ModuleTemplate or Watcher: the
	// publisher did not remove lifecycle-manager's finalizer. Either lifecycle-manager has Manifests for the module in
	// the control plane, or the publisher does not have the permission. The message describes the cause.
	ReasonFinalizerKept = "FinalizerKept"
	// ReasonLeftOut is the reason for a Warning Event on a ModuleTemplate or ModuleReleaseMeta: bundles omit the
	// object, because agents would refuse the bundle or because the object contains a secret. All other modules are
	// published. The message contains the field.
	ReasonLeftOut = "LeftOut"
	// ReasonSettingsIgnored is the reason for a Warning Event on a Kyma: the Kyma has settings that require a
	// permission, but no admission policy checks the permission. The publisher ignores these settings.
	ReasonSettingsIgnored = "SettingsIgnored"
)
