package reason

import "github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"

// Reasons of a Problem in a desired state.
const (
	ModuleUnknown     Reason = "ModuleUnknown"     // no ModuleReleaseMeta or ModuleTemplate has the name
	ChannelMissing    Reason = "ChannelMissing"    // the module has no version in the channel
	TemplateMissing   Reason = "TemplateMissing"   // the version does not have a ModuleTemplate
	TemplateDoubled   Reason = "TemplateDoubled"   // the version has several ModuleTemplates
	CatalogInvalid    Reason = "CatalogInvalid"    // a ModuleTemplate or ModuleReleaseMeta has an invalid value
	PinUnavailable    Reason = "PinUnavailable"    // the version that the Kyma pins cannot be resolved
	ModuleNotOffered  Reason = "ModuleNotOffered"  // the Kyma is not allowed to request the module
	ComponentNotFound Reason = "ComponentNotFound" // no component repository contains the version
	ComponentUnsigned Reason = "ComponentUnsigned" // the signature policy does not accept the component
	ComponentBroken   Reason = "ComponentBroken"   // the component or its content is invalid
	BundleLimit       Reason = "BundleLimit"       // the module would make the bundle exceed a limit of agents
	OlderVersionAsked Reason = "OlderVersionAsked" // the requested version is older than the installed version
	// ModuleNotInherited means that a takeover does not support the version that lifecycle-manager installed.
	ModuleNotInherited Reason = "ModuleNotInherited"
	// AgentOutdated means that the agent lacks a required feature.
	AgentOutdated Reason = "AgentOutdated"
	// ValueUndefined means that the module uses a value that the runtime does not define.
	ValueUndefined Reason = v1beta2.ReasonValueUndefined
	// RemovalHeld means that the removal of the module requires an operator's approval.
	RemovalHeld Reason = "RemovalHeld"
)

// Problems are the reasons of a Problem.
var Problems = []Reason{
	ModuleUnknown, ChannelMissing, TemplateMissing, TemplateDoubled, CatalogInvalid, PinUnavailable, ModuleNotOffered,
	ComponentNotFound, ComponentUnsigned, ComponentBroken, BundleLimit, OlderVersionAsked, ModuleNotInherited,
	AgentOutdated, RemovalHeld,
	ValueUndefined,
	Other,
}

// Reasons of a module in a report: why the module is not Ready, or why its upgrade waits.
const (
	Forbidden      Reason = v1beta2.ReasonForbidden      // the account that installs the module lacks a permission
	ApplyFailed    Reason = v1beta2.ReasonApplyFailed    // the API server, a policy or a quota refuses an object
	Immutable      Reason = v1beta2.ReasonImmutable      // the version changes immutable fields
	Conflict       Reason = v1beta2.ReasonConflict       // an object exists and does not belong to the module
	Protected      Reason = v1beta2.ReasonProtected      // the module contains objects that modules must not contain
	UnknownKind    Reason = v1beta2.ReasonUnknownKind    // the runtime does not serve the kind of an object
	ImagesBroken   Reason = v1beta2.ReasonImagesBroken   // the rules for images could not be applied
	ImagePull      Reason = v1beta2.ReasonImagePull      // the kubelet cannot pull an image
	ContentMissing Reason = v1beta2.ReasonContentMissing // the content is missing in the runtime
	ContentBroken  Reason = v1beta2.ReasonContentBroken  // content cannot be read or rendered
	SourceBroken   Reason = v1beta2.ReasonSourceBroken   // the Manifest's source is invalid
	Timeout        Reason = v1beta2.ReasonTimeout        // objects did not become ready in time
	Installing     Reason = v1beta2.ReasonInstalling     // the agent is applying the module
	Removing       Reason = v1beta2.ReasonRemoving       // the agent is removing the module
	Restoring      Reason = v1beta2.ReasonRestoring      // a deleted Manifest is being restored
	// CustomResourcesExist means that custom resources of users block the removal of the module.
	CustomResourcesExist Reason = v1beta2.ReasonCustomResourcesExist
	// ReportsError, ReportsWarning and Progressing are states of the module's objects.
	ReportsError   Reason = Reason(v1beta2.StateError)
	ReportsWarning Reason = Reason(v1beta2.StateWarning)
	Progressing    Reason = Reason(v1beta2.StateProcessing)

	WindowAwaited Reason = "WindowAwaited" // the upgrade waits for a maintenance window
	WindowMissing Reason = "WindowMissing" // every maintenance window is too short for the upgrade
)

// Modules are the reasons of a module in a report.
var Modules = []Reason{
	Forbidden, ApplyFailed, Immutable, Conflict, Protected, UnknownKind, ImagesBroken, ImagePull, ContentMissing,
	ContentBroken, SourceBroken, Timeout, Installing, Removing, Restoring, CustomResourcesExist, ReportsError,
	ReportsWarning, Progressing, WindowAwaited, WindowMissing, ValueUndefined, Other,
}

// Reasons why a Secret in the runtime differs from the bundle.
const (
	SecretsUnreadable Reason = "SecretsUnreadable" // the agent cannot decrypt the Secrets
	NamespaceMissing  Reason = "NamespaceMissing"  // the namespace of a Secret does not exist
	WriteFailed       Reason = "WriteFailed"       // the API server refuses a Secret
)

// Secrets are the reasons of Secrets in a report.
var Secrets = []Reason{SecretsUnreadable, NamespaceMissing, Conflict, Forbidden, WriteFailed, Other}

// Reasons why the publisher does not publish a bundle for a runtime, or does not seal its Secrets.
const (
	DuplicateRuntimeID Reason = "DuplicateRuntimeID" // another Kyma owns the runtime ID
	RuntimeUnassigned  Reason = "RuntimeUnassigned"  // several Kymas have the runtime ID
	// RuntimeHandedOver means that an operator released the runtime or assigned it to another Kyma.
	RuntimeHandedOver    Reason = "RuntimeHandedOver"
	CloneDetected        Reason = "CloneDetected"        // two agents report with the runtime's key
	RuntimeIDInvalid     Reason = "RuntimeIDInvalid"     // the runtime ID is invalid
	RuntimeIDChanged     Reason = "RuntimeIDChanged"     // the runtime ID in the label changed
	PinsInvalid          Reason = "PinsInvalid"          // the annotation with pinned versions is invalid
	AnnotationInvalid    Reason = "AnnotationInvalid"    // another annotation is invalid
	RegistryNotAnswering Reason = "RegistryNotAnswering" // the registry fails only for this runtime
	RootExpired          Reason = "RootExpired"          // the root of trust has expired
	KeysNotAccepted      Reason = "KeysNotAccepted"      // the root of trust does not list the publisher's keys
	SecretMissing        Reason = "SecretMissing"        // the image pull Secret is missing or has a wrong type
)

// Publishing are the reasons for not publishing a bundle. Sealing are the reasons for not sealing Secrets.
var (
	Publishing = []Reason{
		AgentOutdated, DuplicateRuntimeID, RuntimeUnassigned, RuntimeHandedOver, CloneDetected, RuntimeIDInvalid,
		RuntimeIDChanged, PinsInvalid, AnnotationInvalid,
		RegistryNotAnswering, RootExpired, KeysNotAccepted, Other,
	}
	Sealing = []Reason{SecretMissing, Other}
)

// Reasons why the publisher cannot use a runtime's report, in addition to the reasons of package refusal.
const (
	ReportUnreadable Reason = "ReportUnreadable" // the registry responds without the report
	RequestTruncated Reason = "RequestTruncated" // the report omits the requested modules
)
