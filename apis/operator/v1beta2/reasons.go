package v1beta2

// Reasons for a Kyma's conditions, as set by the control plane.
const (
	// ReasonReady and ReasonNotReady are reasons for the conditions Ready, Modules and ModuleCatalog. The message
	// contains the problem.
	ReasonReady    = "Ready"
	ReasonNotReady = "NotReady"
	// ReasonPublishFailed is a reason for the condition Ready: no newer bundle could be built or pushed. The message
	// contains the cause.
	ReasonPublishFailed = "PublishFailed"

	// ReasonReported is a reason for the condition Reporting: the latest report was accepted in time.
	ReasonReported = "Reported"
	// ReasonNeverReported is a reason for the condition Reporting: no report from the runtime was ever accepted.
	ReasonNeverReported = "NeverReported"
	// ReasonSilent is a reason for the condition Reporting: the last report is older than the allowed silence.
	ReasonSilent = "Silent"
	// ReasonReportRefused is a reason for the condition Reporting: the publisher refused the latest report. The message
	// contains the failed check.
	ReasonReportRefused = "ReportRefused"
	// ReasonClockBehind is a reason for the condition Reporting: the time in the latest report was old when the report
	// arrived. The runtime's clock is wrong, or its reports are delayed.
	ReasonClockBehind = "ClockBehind"
	// ReasonTruncated is a reason for the condition Reporting: the runtime is reporting, but its latest report was too
	// large and was truncated.
	ReasonTruncated = "Truncated"
	// ReasonCarried is a reason for the conditions Reporting and Accepted: operators carry the runtime's bundles and
	// reports (see AnnotationCarried).
	ReasonCarried = "Carried"

	// ReasonAccepted is a reason for the condition Accepted: the runtime has applied the latest bundle.
	ReasonAccepted = "Accepted"
	// ReasonPending is a reason for the conditions Accepted and Secrets: the runtime has not reported the latest bundle
	// yet.
	ReasonPending = "Pending"
	// ReasonBundleRefused is a reason for the condition Accepted: the agent refused a bundle. The message contains the
	// bundle and the failed check.
	ReasonBundleRefused = "BundleRefused"

	// ReasonSynced is a reason for the condition Synced: all objects of the applied bundle are written.
	ReasonSynced = "Synced"
	// ReasonObjectRefused is a reason for the condition Synced and, in a runtime, for ModuleCatalog: objects could not
	// be written. The message contains the objects and the API server's error. The agent retries.
	ReasonObjectRefused = "ObjectRefused"
	// ReasonStorageRefused is a reason for the conditions Synced and Accepted: the agent cannot store a newer bundle in
	// Secrets in kyma-system. The message describes the cause.
	ReasonStorageRefused = "StorageRefused"
	// ReasonPinsUnreadable is a reason for the condition Synced: the annotation that pins versions in the runtime's
	// Kyma is invalid. The message contains the invalid entry. Until it is corrected, the modules and versions that the
	// Kyma last requested stay in effect.
	ReasonPinsUnreadable = "PinsUnreadable"

	// ReasonUpgraded is a reason for the condition Agent: the agent runs the image in its bundle. ReasonRolledBack is a
	// reason for the condition Agent: the agent does not run the image in its bundle, because this image failed its
	// trial, the registry failed during the trial, or the image is older. The message contains the cause.
	ReasonUpgraded   = "Upgraded"
	ReasonRolledBack = "RolledBack"
	// ReasonAgentOutdated is a reason for the condition Features: the agent is too old for some content, so its bundle
	// omits the content. The message identifies the content. Upgrade the agent.
	ReasonAgentOutdated = "AgentOutdated"
	// ReasonAgentSupported is a reason for the condition Features: the agent supports all content of its bundle again.
	ReasonAgentSupported = "Understood"

	// ReasonConsistent is a reason for the condition Registry: the registry contains the published bundle.
	ReasonConsistent = "Consistent"
	// ReasonRegistryAvailable is a reason for the condition Registry in a runtime, and for the Event at the end of an
	// outage: the agent can read bundles again.
	ReasonRegistryAvailable = "RegistryAvailable"
	// ReasonRegistryUnavailable is a reason for the condition Registry in a runtime, and for an Event: the agent cannot
	// read bundles from the registry. The applied bundle stays in effect.
	ReasonRegistryUnavailable = "RegistryUnavailable"
	// ReasonBundleMissing is a reason for the condition Registry: the registry no longer had a bundle for the runtime.
	ReasonBundleMissing = "BundleMissing"
	// ReasonBundleIncomplete is a reason for the condition Registry: the registry had the runtime's bundle but not all
	// documents that the bundle references.
	ReasonBundleIncomplete = "BundleIncomplete"
	// ReasonBundleReplayed is a reason for the condition Registry: the registry had a bundle that is older than the
	// published bundle.
	ReasonBundleReplayed = "BundleReplayed"
	// ReasonBundleForeign is a reason for the condition Registry: the registry had a bundle that is not signed with any
	// of the fleet's publisher keys.
	ReasonBundleForeign = "BundleForeign"
	// ReasonBundleAhead is a reason for the condition Registry: the registry had a bundle whose sequence corresponds to
	// a time in the future.
	ReasonBundleAhead = "BundleAhead"
	// ReasonBundleUnknown is a reason for the condition Registry: the registry had a newer bundle than this publisher
	// knows.
	ReasonBundleUnknown = "BundleUnknown"

	// ReasonRemovalsHeld is a reason for the condition Removals, and for a Warning Event on the publisher's Lease:
	// removing modules waits for an operator's approval. The message contains the modules and the reason.
	ReasonRemovalsHeld = "RemovalsHeld"
	// ReasonNoRemovalsHeld is a reason for the condition Removals: no removal waits for an operator's approval.
	ReasonNoRemovalsHeld = "NoRemovalsHeld"
	// ReasonCommitHeld is a reason for the condition Publishing: a Git commit is partially applied. Until it is applied
	// completely, the publisher extends the validity of bundles but does not change their content. The message contains
	// the commit.
	ReasonCommitHeld = "CommitHeld"
	// ReasonPublishing is a reason for the condition Publishing: bundles are published again.
	ReasonPublishing = "Publishing"

	// ReasonWritten is a reason for the condition Secrets: the agent has written all sealed Secrets.
	ReasonWritten = "Written"
	// ReasonNotSealed is a reason for the condition Secrets: the Secrets could not be encrypted for the runtime.
	ReasonNotSealed = "NotSealed"
	// ReasonNotWritten is a reason for the condition Secrets: the agent could not write the Secrets.
	ReasonNotWritten = "NotWritten"

	// ReasonWatching is a reason for the condition SKRWebhook: the runtime watches all Watchers' resources.
	ReasonWatching = "Watching"
	// ReasonNotWatched is a reason for the condition SKRWebhook: the runtime does not watch a Watcher's resource. The
	// message contains the Watcher and the cause.
	ReasonNotWatched = "NotWatched"
)
