package v1beta2

// Reasons of a Kyma's conditions, as the control plane sets them.
const (
	// ReasonReady and ReasonNotReady are of Ready, Modules and ModuleCatalog: the message says what is missing.
	ReasonReady    = "Ready"
	ReasonNotReady = "NotReady"
	// ReasonPublishFailed is of Ready: no newer bundle could be made or pushed. The message says why.
	ReasonPublishFailed = "PublishFailed"

	// ReasonReported is of Reporting: the newest report was accepted in time.
	ReasonReported = "Reported"
	// ReasonNeverReported is of Reporting: no report of the runtime was ever accepted.
	ReasonNeverReported = "NeverReported"
	// ReasonSilent is of Reporting: the last report is older than the allowed silence.
	ReasonSilent = "Silent"
	// ReasonReportRefused is of Reporting: the newest report was refused. The message names the check.
	ReasonReportRefused = "ReportRefused"
	// ReasonClockBehind is of Reporting: by its own time the newest report was old when it arrived. The runtime's clock is
	// wrong, or its reports are held back.
	ReasonClockBehind = "ClockBehind"
	// ReasonTruncated is of Reporting: the runtime reports, and not all that there is to say fits its report.
	ReasonTruncated = "Truncated"
	// ReasonCarried is of Reporting and Accepted: bundles and reports are carried by hand.
	ReasonCarried = "Carried"

	// ReasonAccepted is of Accepted: the runtime has applied the latest bundle.
	ReasonAccepted = "Accepted"
	// ReasonPending is of Accepted and Secrets: the runtime has not reported the latest bundle yet.
	ReasonPending = "Pending"
	// ReasonBundleRefused is of Accepted: the agent refused a bundle. The message names the bundle and the check.
	ReasonBundleRefused = "BundleRefused"

	// ReasonSynced is of Synced: everything is written as the bundle in force says.
	ReasonSynced = "Synced"
	// ReasonObjectRefused is of Synced and, in a runtime, of ModuleCatalog: objects could not be written. The message
	// names them, with what the API server says; they are tried again.
	ReasonObjectRefused = "ObjectRefused"
	// ReasonStorageRefused is of Synced and Accepted: the agent cannot keep a newer bundle in Secrets of kyma-system. The
	// message says why.
	ReasonStorageRefused = "StorageRefused"
	// ReasonPinsUnreadable is of Synced: the annotation that pins versions in the runtime's Kyma cannot be read. The
	// message says which entry is wrong; what the Kyma asked for before is followed.
	ReasonPinsUnreadable = "PinsUnreadable"

	// ReasonUpgraded and ReasonRolledBack are of Agent: the agent runs the image that its bundle names, or went back to
	// the one before.
	ReasonUpgraded   = "Upgraded"
	ReasonRolledBack = "RolledBack"
	// ReasonAgentOutdated is of Features: the agent is too old for something that its bundle would say, which is left out.
	// The message says what; upgrade the agent.
	ReasonAgentOutdated = "AgentOutdated"
	// ReasonUnderstood is of Features: the agent understands all of its bundle again.
	ReasonUnderstood = "Understood"

	// ReasonConsistent is of Registry: the registry holds what was published.
	ReasonConsistent = "Consistent"
	// ReasonRegistryAvailable is of Registry in a runtime, and of an Event of its end: bundles can be read again.
	ReasonRegistryAvailable = "RegistryAvailable"
	// ReasonRegistryUnavailable is of Registry in a runtime, and of an Event: the agent can read no bundle from the
	// registry. What is in force stays.
	ReasonRegistryUnavailable = "RegistryUnavailable"
	// ReasonBundleMissing is of Registry: the registry had no bundle of the runtime any more.
	ReasonBundleMissing = "BundleMissing"
	// ReasonBundleIncomplete is of Registry: the registry had the runtime's bundle without its documents.
	ReasonBundleIncomplete = "BundleIncomplete"
	// ReasonBundleReplayed is of Registry: the registry had an older bundle than was published.
	ReasonBundleReplayed = "BundleReplayed"
	// ReasonBundleForeign is of Registry: the registry had something that no publisher key of the fleet signed.
	ReasonBundleForeign = "BundleForeign"
	// ReasonBundleAhead is of Registry: the registry had a bundle whose sequence is ahead of the time.
	ReasonBundleAhead = "BundleAhead"
	// ReasonBundleUnknown is of Registry: the registry had a newer bundle than this publisher knows.
	ReasonBundleUnknown = "BundleUnknown"

	// ReasonRemovalsHeld is of Removals, and of an Event of type Warning on the publisher's Lease: the removal of modules
	// waits for an operator's approval. The message names the modules and the reason.
	ReasonRemovalsHeld = "RemovalsHeld"
	// ReasonNoRemovalsHeld is of Removals: no removal waits any longer.
	ReasonNoRemovalsHeld = "NoRemovalsHeld"
	// ReasonCommitHeld is of Publishing: a Git commit is applied in part, so bundles are renewed without a change. The
	// message names the commit.
	ReasonCommitHeld = "CommitHeld"
	// ReasonPublishing is of Publishing: bundles are published again.
	ReasonPublishing = "Publishing"

	// ReasonWritten is of Secrets: the runtime has them as sealed.
	ReasonWritten = "Written"
	// ReasonNotSealed is of Secrets: they could not be encrypted for the runtime.
	ReasonNotSealed = "NotSealed"
	// ReasonNotWritten is of Secrets: the agent could not write them.
	ReasonNotWritten = "NotWritten"

	// ReasonWatching is of SKRWebhook: the runtime watches what all Watchers ask for.
	ReasonWatching = "Watching"
	// ReasonNotWatched is of SKRWebhook: the runtime does not watch what a Watcher asks for. The message names the Watcher
	// and says why.
	ReasonNotWatched = "NotWatched"
)
