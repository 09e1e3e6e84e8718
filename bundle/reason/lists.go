package reason

import "github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"

// Reasons for a Problem in a runtime's desired state.
const (
	ModuleUnknown     Reason = "ModuleUnknown"     // no ModuleReleaseMeta or ModuleTemplate has the name
	ChannelMissing    Reason = "ChannelMissing"    // the module has no version in the channel
	TemplateMissing   Reason = "TemplateMissing"   // the version does not have a ModuleTemplate
	TemplateDoubled   Reason = "TemplateDoubled"   // the version has several ModuleTemplates
	CatalogInvalid    Reason = "CatalogInvalid"    // a ModuleTemplate or ModuleReleaseMeta has an invalid value
	PinUnavailable    Reason = "PinUnavailable"    // the version that the Kyma pins cannot be resolved
	ModuleNotOffered  Reason = "ModuleNotOffered"  // the runtime's Kyma is not allowed to request the module
	ComponentNotFound Reason = "ComponentNotFound" // no component repository contains the version
	ComponentUnsigned Reason = "ComponentUnsigned" // the component's signature does not satisfy the signature policy
	ComponentBroken   Reason = "ComponentBroken"   // the component or its content is invalid
	BundleLimit       Reason = "BundleLimit"       // the module would make the bundle too large for agents
	OlderVersionAsked Reason = "OlderVersionAsked" // the requested version is older than the installed version
	// ModuleNotInherited means that a takeover cannot adopt the version that lifecycle-manager installed.
	ModuleNotInherited Reason = "ModuleNotInherited"
	// AgentOutdated means that the runtime's agent does not support a feature that the module needs.
	AgentOutdated Reason = "AgentOutdated"
	// ValueUndefined means that the module uses a value that the runtime does not define.
	ValueUndefined Reason = v1beta2.ReasonValueUndefined
	// ValueInvalid means that the runtime's value does not have the type that the module needs.
	ValueInvalid Reason = v1beta2.ReasonValueInvalid
	// RemovalHeld means that the removal of the module requires an operator's approval.
	RemovalHeld Reason = "RemovalHeld"
)

// Problems lists all reasons for a Problem in a desired state.
var Problems = []Reason{
	ModuleUnknown, ChannelMissing, TemplateMissing, TemplateDoubled, CatalogInvalid, PinUnavailable, ModuleNotOffered,
	ComponentNotFound, ComponentUnsigned, ComponentBroken, BundleLimit, OlderVersionAsked, ModuleNotInherited,
	AgentOutdated, RemovalHeld,
	ValueUndefined, ValueInvalid,
	Other,
}

// Reasons for a module in a report: why the module is not Ready, or why its upgrade waits.
const (
	Forbidden      Reason = v1beta2.ReasonForbidden      // the account that installs the module lacks a permission
	ApplyFailed    Reason = v1beta2.ReasonApplyFailed    // the API server, a policy or a quota refuses an object
	Immutable      Reason = v1beta2.ReasonImmutable      // the new version changes immutable fields of an object
	Conflict       Reason = v1beta2.ReasonConflict       // an object already exists and does not belong to the module
	Protected      Reason = v1beta2.ReasonProtected      // the module contains objects that modules must not contain
	UnknownKind    Reason = v1beta2.ReasonUnknownKind    // the API server does not serve the kind of an object
	ImagesBroken   Reason = v1beta2.ReasonImagesBroken   // an image reference could not be rewritten
	ImagePull      Reason = v1beta2.ReasonImagePull      // the kubelet cannot pull an image
	ContentMissing Reason = v1beta2.ReasonContentMissing // the module's content is not in the runtime
	ContentBroken  Reason = v1beta2.ReasonContentBroken  // the module's content cannot be read or rendered
	SourceBroken   Reason = v1beta2.ReasonSourceBroken   // the field spec.install.source is invalid
	Timeout        Reason = v1beta2.ReasonTimeout        // the module's objects did not become ready in time
	Installing     Reason = v1beta2.ReasonInstalling     // the agent is applying the module
	Removing       Reason = v1beta2.ReasonRemoving       // the agent is removing the module
	Restoring      Reason = v1beta2.ReasonRestoring      // the agent is restoring a Manifest that was deleted
	// CustomResourcesExist means that users' custom resources block the module's removal.
	CustomResourcesExist Reason = v1beta2.ReasonCustomResourcesExist
	// ReportsError, ReportsWarning and Progressing mean that one of the module's objects is in the state Error, Warning
	// or Processing.
	ReportsError   Reason = Reason(v1beta2.StateError)
	ReportsWarning Reason = Reason(v1beta2.StateWarning)
	Progressing    Reason = Reason(v1beta2.StateProcessing)

	WindowAwaited Reason = "WindowAwaited" // the upgrade waits for a maintenance window
	WindowMissing Reason = "WindowMissing" // every maintenance window is too short for the upgrade
)

// Modules lists all reasons for a module in a report.
var Modules = []Reason{
	Forbidden, ApplyFailed, Immutable, Conflict, Protected, UnknownKind, ImagesBroken, ImagePull, ContentMissing,
	ContentBroken, SourceBroken, Timeout, Installing, Removing, Restoring, CustomResourcesExist, ReportsError,
	ReportsWarning, Progressing, WindowAwaited, WindowMissing, ValueUndefined, ValueInvalid,
	Other,
}

// Reasons why a Secret in the runtime differs from the bundle.
const (
	SecretsUnreadable Reason = "SecretsUnreadable" // the agent cannot decrypt the Secrets
	NamespaceMissing  Reason = "NamespaceMissing"  // a Secret's namespace does not exist
	WriteFailed       Reason = "WriteFailed"       // the API server refuses a Secret
)

// Secrets lists all reasons for ReportedSecrets in a report.
var Secrets = []Reason{SecretsUnreadable, NamespaceMissing, Conflict, Forbidden, WriteFailed, Other}

// Reasons why the publisher does not publish a bundle for a runtime, or does not include the runtime's Secrets in it.
const (
	DuplicateRuntimeID Reason = "DuplicateRuntimeID" // another Kyma owns the runtime ID
	RuntimeUnassigned  Reason = "RuntimeUnassigned"  // several Kymas have the same runtime ID
	// RuntimeHandedOver means that an operator released the runtime or assigned it to another Kyma.
	RuntimeHandedOver    Reason = "RuntimeHandedOver"
	CloneDetected        Reason = "CloneDetected"        // two agents use the runtime's key
	RuntimeIDInvalid     Reason = "RuntimeIDInvalid"     // the runtime ID is invalid
	RuntimeIDChanged     Reason = "RuntimeIDChanged"     // the runtime ID in the label changed
	PinsInvalid          Reason = "PinsInvalid"          // the annotation with pinned versions is invalid
	AnnotationInvalid    Reason = "AnnotationInvalid"    // an annotation other than the pinned versions is invalid
	RegistryNotAnswering Reason = "RegistryNotAnswering" // the registry works, but requests for this runtime fail
	RootExpired          Reason = "RootExpired"          // the root of trust has expired
	KeysNotAccepted      Reason = "KeysNotAccepted"      // the root of trust does not list the publisher's keys
	SecretMissing        Reason = "SecretMissing"        // the image pull Secret is missing or has the wrong type
)

// Publishing lists the reasons for not publishing a bundle. Sealing lists the reasons for not including Secrets.
var (
	Publishing = []Reason{
		AgentOutdated, DuplicateRuntimeID, RuntimeUnassigned, RuntimeHandedOver, CloneDetected, RuntimeIDInvalid,
		RuntimeIDChanged, PinsInvalid, AnnotationInvalid,
		RegistryNotAnswering, RootExpired, KeysNotAccepted, Other,
	}
	Sealing = []Reason{SecretMissing, Other}
)

// Reasons why the publisher cannot use a runtime's report, in addition to the reasons in package refusal.
const (
	ReportUnreadable Reason = "ReportUnreadable" // the registry works, but the report cannot be read
	RequestTruncated Reason = "RequestTruncated" // the report omits the modules that the Kyma requests
)
