package v1beta2

// Reasons of Events on a Kyma in the control plane about its runtime. Some conditions share them: ReasonEnrolled,
// ReasonApplied (the runtime has other versions than before and is not Ready with them yet), ReasonRolledBack (a bundle
// returns modules to older versions) and ReasonReady. Each Event is emitted once, after the matching status was
// written.
const (
	// ReasonPublished is the reason of an Event on a Kyma: a new bundle changes modules or versions. The message names
	// them. It is also a reason of Ready on a Watcher: the bundles of all runtimes contain it.
	ReasonPublished = "Published"
	// ReasonFailed is the reason of a Warning Event: the state became Error, or became Warning from a better state. The
	// message is the message of condition Ready.
	ReasonFailed = "Failed"
	// ReasonRuntimeSilent: no report of the runtime was received within the allowed silence.
	ReasonRuntimeSilent = "RuntimeSilent"
	// ReasonRuntimeHeard: a silent runtime reports again.
	ReasonRuntimeHeard = "RuntimeHeard"
	// ReasonRootExpires is the reason of an Event on the publisher's Lease: the root of trust expires soon, or has
	// expired.
	ReasonRootExpires = "RootExpires"
)

// Reasons of the one Event that is emitted when the finalizer of a deleted Kyma is removed.
const (
	// ReasonRuntimeEmpty: the runtime has reported that all modules are removed.
	ReasonRuntimeEmpty = "RuntimeEmpty"
	// ReasonHandedOver is the reason of an Event on a deleted Kyma whose finalizer is removed: its runtime belongs to
	// another Kyma or control plane, and keeps its modules.
	ReasonHandedOver = "HandedOver"
	// ReasonCloneDetected is the reason of a Warning Event on a Kyma: two agents use the key of its runtime.
	ReasonCloneDetected = "CloneDetected"
	// ReasonRuntimeGone: LabelRuntimeGone marks the runtime's cluster as no longer existing.
	ReasonRuntimeGone = "RuntimeGone"
	// ReasonDeletionForced is the reason of a Warning Event: LabelForceDeletion skipped waiting for the runtime, which
	// may still have modules.
	ReasonDeletionForced = "DeletionForced"
	// ReasonRuntimeNeverReported is the reason of a Warning Event: no report of the runtime was ever accepted, so there
	// was no reason to wait.
	ReasonRuntimeNeverReported = "RuntimeNeverReported"
	// ReasonDeletionTimeout is the reason of a Warning Event: the runtime did not report to be empty within the
	// publisher's --deletion-timeout, and may still have modules.
	ReasonDeletionTimeout = "DeletionTimeout"
	// ReasonNothingToRemove is the reason of a Warning Event: no bundle was ever published for the Kyma, and none can
	// be, for example because its runtime belongs to another Kyma.
	ReasonNothingToRemove = "NothingToRemove"
)

// Reasons about Watchers.
const (
	// ReasonRefused is a reason of Ready on a Watcher: no runtime is asked to watch for it. The message names the fix.
	ReasonRefused = "Refused"
	// ReasonWatchedObjectChanged is the reason of an Event on a Kyma: the runtime reported a change of an object that a
	// Watcher selects. The message names the Watcher and the object.
	ReasonWatchedObjectChanged = "WatchedObjectChanged"
	// ReasonWatchFailed is the reason of a Warning Event on a Kyma: the runtime cannot watch the resource of a Watcher.
	// The message contains the cause.
	ReasonWatchFailed = "WatchFailed"
)

// Reasons of Events on objects of the control plane that have no matching condition.
const (
	// ReasonFinalizerKept is the reason of an Event on a deleted ModuleReleaseMeta, ModuleTemplate or Watcher:
	// lifecycle-manager's finalizer stays, because lifecycle-manager has Manifests of the module in the control plane
	// or because the publisher lacks the permission to remove it. The message names the cause.
	ReasonFinalizerKept = "FinalizerKept"
	// ReasonLeftOut is the reason of a Warning Event on a ModuleTemplate or ModuleReleaseMeta: no bundle contains the
	// object, because agents would refuse the bundle or because the object contains a secret. All other modules are
	// published. The message names the field.
	ReasonLeftOut = "LeftOut"
	// ReasonSettingsIgnored is the reason of a Warning Event on a Kyma: it has settings that need a permission, and no
	// admission policy enforces it. The publisher ignores them.
	ReasonSettingsIgnored = "SettingsIgnored"
)
