package v1beta2

// Reasons for the conditions and Events that only skr-agent writes, in its runtime. Condition Accepted also uses the
// reasons in package bundle/refusal for refused bundles and roots of trust.
const (
	// ReasonNoBundle is a reason for the condition Accepted: the agent has not accepted any bundle yet.
	ReasonNoBundle = "NoBundle"

	// ReasonEnrolled is a reason for the condition Enrolled: the control plane knows the agent's key. ReasonNotEnrolled
	// is a reason for the condition Enrolled: the control plane does not know the agent's key, and the agent cannot
	// enroll it. The message describes the fix.
	ReasonEnrolled    = "Enrolled"
	ReasonNotEnrolled = "NotEnrolled"

	// ReasonApplying means that a module's objects are about to be applied.
	ReasonApplying = "Applying"
	// ReasonApplied means that all of a module's objects are applied.
	ReasonApplied = "Applied"
	// ReasonApplyFailed means that the API server refused one of a module's objects.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonImmutable means that a new version changes immutable fields of objects that the agent must not recreate.
	// The message contains the objects and the fix.
	ReasonImmutable = "Immutable"
	// ReasonInstalling means that a module is being applied or is not ready yet.
	ReasonInstalling = "Installing"
	// ReasonTimeout means that a module's objects did not become ready in time.
	ReasonTimeout = "Timeout"
	// ReasonRendered means that a module's content was rendered to objects.
	ReasonRendered = "Rendered"
	// ReasonContentMissing means that the runtime does not have a module's content.
	ReasonContentMissing = "ContentMissing"
	// ReasonContentBroken means that a module's content could not be read or rendered.
	ReasonContentBroken = "ContentBroken"
	// ReasonValueUndefined means that a module uses a value that its runtime does not define. The message contains the
	// module and the value.
	ReasonValueUndefined = "ValueUndefined"
	// ReasonValueInvalid means that a module uses a value as an integer or boolean, but its runtime defines the value
	// as another text. The message contains the module and the value.
	ReasonValueInvalid = "ValueInvalid"
	// ReasonSourceBroken means that the field spec.install.source of a Manifest does not identify any content.
	ReasonSourceBroken = "SourceBroken"
	// ReasonUnknownKind means that a module has objects whose kind the API server does not serve or store.
	ReasonUnknownKind = "UnknownKind"
	// ReasonUnknownFields is a reason for Fields: a module's objects have unknown fields, which the agent ignores.
	ReasonUnknownFields = "UnknownFields"
	// ReasonFieldsKnown is a reason for Fields: after an earlier version with unknown fields, all fields are known.
	ReasonFieldsKnown = "FieldsKnown"
	// ReasonProtected means that a module contains objects that modules must not contain.
	ReasonProtected = "Protected"
	// ReasonConflict means that one of a module's objects belongs to another module, or existed before the module and
	// has no owner that the agent knows.
	ReasonConflict = "Conflict"
	// ReasonRightsUnknown is a reason for the condition Rights: the API server could not review the permissions of the
	// module's ServiceAccount, for example because it cannot call an authorization webhook. The agent uses a dry run of
	// all objects instead.
	ReasonRightsUnknown = "RightsUnknown"
	// ReasonRightsReviewed is a reason for the condition Rights: after an earlier failure, the API server reviewed the
	// permissions of the module's ServiceAccount.
	ReasonRightsReviewed = "RightsReviewed"
	// ReasonReadForbidden is a reason for the condition Rights: the agent's own ServiceAccount cannot list autoscalers
	// or StorageClasses, so the agent reverts the replicas of an autoscaler, or reports a waiting PersistentVolumeClaim
	// as not ready.
	ReasonReadForbidden = "ReadForbidden"
	// ReasonForbidden means that the module's ServiceAccount does not have a required permission.
	ReasonForbidden = "Forbidden"
	// ReasonImagesBroken means that the agent could not rewrite a module's images with the rules in AnnotationImages.
	ReasonImagesBroken = "ImagesBroken"
	// ReasonImagePull means that the kubelet cannot pull one of a module's images.
	ReasonImagePull = "ImagePull"
	// ReasonImagesListed means that the module's component descriptor lists all images that the module's objects use.
	ReasonImagesListed = "Listed"
	// ReasonImagesNotListed means that the module's component descriptor does not list all images that the module's
	// objects use.
	ReasonImagesNotListed = "NotListed"
	// ReasonNoImagesListed means that the module's component descriptor does not list images.
	ReasonNoImagesListed = "NothingListed"
	// ReasonRemoving means that a module's objects are being deleted.
	ReasonRemoving = "Removing"
	// ReasonRestoring means that a Manifest was deleted, but no bundle removes its module. The module stays installed,
	// and the agent restores the Manifest.
	ReasonRestoring = "Restoring"
	// ReasonCustomResourcesExist means that a module can only be removed once its custom resources are deleted.
	ReasonCustomResourcesExist = "CustomResourcesExist"
	// ReasonUnmanaged means that a module became unmanaged. Its objects stay in the runtime.
	ReasonUnmanaged = "Unmanaged"

	// ReasonRecreating is the reason for the Event on a Manifest whose new version requires objects to be recreated.
	ReasonRecreating = "Recreating"
	// ReasonDataKept is the reason for the Event on a Manifest whose module is removed: the agent keeps one of the
	// module's namespaces, because it contains other owners' objects.
	ReasonDataKept = "DataKept"
	// ReasonDriftCorrected is the reason for the Event on a Manifest after another client changed the module's objects
	// and the agent reverted the changes.
	ReasonDriftCorrected = "DriftCorrected"
	// ReasonAgentUpgradeRolledBack is the reason for the Event on the runtime's Kyma if the agent does not run the image
	// in its bundle, because the trial failed or the image is older. The message contains the cause.
	ReasonAgentUpgradeRolledBack = "AgentUpgradeRolledBack"
)
