package v1beta2

// Reasons of the conditions and events that only skr-agent writes, into its runtime. Those of refused bundles and roots
// of trust, which are reasons of the condition Accepted too, are in package bundle/refusal.
const (
	// ReasonNoBundle is of Accepted: no bundle was accepted yet.
	ReasonNoBundle = "NoBundle"

	// ReasonEnrolled and ReasonNotEnrolled are of Enrolled: the control plane knows the agent's key, or the agent has no
	// means any more to make it known. The message says what to do.
	ReasonEnrolled    = "Enrolled"
	ReasonNotEnrolled = "NotEnrolled"

	// ReasonApplying says that a module's objects are about to be applied.
	ReasonApplying = "Applying"
	// ReasonApplied says that all of a module's objects are applied.
	ReasonApplied = "Applied"
	// ReasonApplyFailed says that the API server refused an object of a module.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonImmutable says that a new version changes fields that the API server lets nobody change, of objects that may
	// not be recreated. The message names them and what to do.
	ReasonImmutable = "Immutable"
	// ReasonInstalling says that a module is being applied, or is waited for.
	ReasonInstalling = "Installing"
	// ReasonTimeout says that a module's objects did not become ready in time.
	ReasonTimeout = "Timeout"
	// ReasonRendered says that a module's content gave its objects.
	ReasonRendered = "Rendered"
	// ReasonContentMissing says that a module's content is not in the runtime.
	ReasonContentMissing = "ContentMissing"
	// ReasonContentBroken says that a module's content could not be read or rendered.
	ReasonContentBroken = "ContentBroken"
	// ReasonSourceBroken says that a Manifest's spec.install.source names no content.
	ReasonSourceBroken = "SourceBroken"
	// ReasonUnknownKind says that a module has objects of a kind that the API server does not serve.
	ReasonUnknownKind = "UnknownKind"
	// ReasonProtected says that a module has objects that no module may have.
	ReasonProtected = "Protected"
	// ReasonConflict says that an object of a module is another module's, or was there already and is nobody's that the
	// agent knows.
	ReasonConflict = "Conflict"
	// ReasonRightsUnknown is of condition Rights: the API server could not review what the module's ServiceAccount may do,
	// for example because it cannot call a webhook. A dry run of all objects decides instead.
	ReasonRightsUnknown = "RightsUnknown"
	// ReasonRightsReviewed is of condition Rights: the review works again.
	ReasonRightsReviewed = "RightsReviewed"
	// ReasonForbidden says that the module's service account lacks a right.
	ReasonForbidden = "Forbidden"
	// ReasonImagesBroken says that the rules on where images come from could not be followed.
	ReasonImagesBroken = "ImagesBroken"
	// ReasonImagePull: the kubelet cannot pull an image of a module.
	ReasonImagePull = "ImagePull"
	// ReasonImagesListed says that the component lists all images of its objects.
	ReasonImagesListed = "Listed"
	// ReasonImagesNotListed says that the component does not list all images of its objects.
	ReasonImagesNotListed = "NotListed"
	// ReasonNoImagesListed says that the component lists no images.
	ReasonNoImagesListed = "NothingListed"
	// ReasonRemoving says that the deletion of a module's objects is waited for.
	ReasonRemoving = "Removing"
	// ReasonRestoring says that somebody deleted a Manifest whose module no bundle removes: the module stays, and the
	// Manifest comes back.
	ReasonRestoring = "Restoring"
	// ReasonCustomResourcesExist says that a module is removed once its custom resources are deleted.
	ReasonCustomResourcesExist = "CustomResourcesExist"
	// ReasonUnmanaged says that a module is not managed any more and its resources are left in place.
	ReasonUnmanaged = "Unmanaged"

	// ReasonRecreating is of the event on a Manifest whose new version needs objects to be recreated.
	ReasonRecreating = "Recreating"
	// ReasonDriftCorrected is of the event on a Manifest whose objects were changed by somebody else.
	ReasonDriftCorrected = "DriftCorrected"
	// ReasonAgentUpgradeRolledBack is of the event on the runtime's Kyma when the agent's new image did not prove itself.
	ReasonAgentUpgradeRolledBack = "AgentUpgradeRolledBack"
)
