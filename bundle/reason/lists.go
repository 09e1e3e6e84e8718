package reason

import "github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"

// Reasons of a Problem in a desired state: why a requested module is not resolved as requested.
const (
	ModuleUnknown     Reason = "ModuleUnknown"     // no ModuleReleaseMeta or ModuleTemplate has the name
	ChannelMissing    Reason = "ChannelMissing"    // the module has no version in the channel
	TemplateMissing   Reason = "TemplateMissing"   // the version has no ModuleTemplate
	TemplateDoubled   Reason = "TemplateDoubled"   // the version has two ModuleTemplates
	CatalogInvalid    Reason = "CatalogInvalid"    // a ModuleTemplate or ModuleReleaseMeta has an invalid value
	PinUnavailable    Reason = "PinUnavailable"    // the Kyma pins a version that cannot be resolved
	ModuleNotOffered  Reason = "ModuleNotOffered"  // this Kyma is not allowed to request the module
	ComponentNotFound Reason = "ComponentNotFound" // no repository contains the component version
	ComponentUnsigned Reason = "ComponentUnsigned" // the signature policy does not accept the component
	ComponentBroken   Reason = "ComponentBroken"   // the component or its content cannot be used
	BundleLimit       Reason = "BundleLimit"       // the module would make the bundle exceed a limit of agents
	OlderVersionAsked Reason = "OlderVersionAsked" // the requested version is older than the one in the runtime
	// ModuleNotInherited: lifecycle-manager installed a version that cannot be taken over.
	ModuleNotInherited Reason = "ModuleNotInherited"
	// AgentOutdated: the agent lacks a feature of the module. It is also a reason for not publishing.
	AgentOutdated Reason = "AgentOutdated"
	// ValueUndefined: the module uses a value that the runtime does not have. It is also a reason of a module in a report.
	ValueUndefined Reason = v1beta2.ReasonValueUndefined
	// RemovalHeld: the removal of the module waits for an operator's approval.
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

// Reasons of a module in a report: why it is not Ready, or why its upgrade waits. All but the last two are reasons of
// condition Ready of the module's Manifest.
const (
	Forbidden      Reason = v1beta2.ReasonForbidden      // the account that installs the module lacks a permission
	ApplyFailed    Reason = v1beta2.ReasonApplyFailed    // the API server, a policy or a quota refuses an object
	Immutable      Reason = v1beta2.ReasonImmutable      // the version changes fields that cannot change in place
	Conflict       Reason = v1beta2.ReasonConflict       // an object exists and does not belong to the module
	Protected      Reason = v1beta2.ReasonProtected      // the module contains objects that modules must not contain
	UnknownKind    Reason = v1beta2.ReasonUnknownKind    // the runtime does not serve the kind of an object
	ImagesBroken   Reason = v1beta2.ReasonImagesBroken   // the rules for image locations could not be applied
	ImagePull      Reason = v1beta2.ReasonImagePull      // the kubelet cannot pull an image
	ContentMissing Reason = v1beta2.ReasonContentMissing // the runtime does not have the content
	ContentBroken  Reason = v1beta2.ReasonContentBroken  // content cannot be read or rendered
	SourceBroken   Reason = v1beta2.ReasonSourceBroken   // the Manifest's source does not name content
	Timeout        Reason = v1beta2.ReasonTimeout        // objects did not become ready in time
	Installing     Reason = v1beta2.ReasonInstalling     // the agent is applying the module
	Removing       Reason = v1beta2.ReasonRemoving       // the agent is removing the module
	Restoring      Reason = v1beta2.ReasonRestoring      // a deleted Manifest is being restored
	// CustomResourcesExist: custom resources of users block the removal of the module.
	CustomResourcesExist Reason = v1beta2.ReasonCustomResourcesExist
	// ReportsError, ReportsWarning and Progressing are states of the module's own objects.
	ReportsError   Reason = Reason(v1beta2.StateError)
	ReportsWarning Reason = Reason(v1beta2.StateWarning)
	Progressing    Reason = Reason(v1beta2.StateProcessing)

	WindowAwaited Reason = "WindowAwaited" // the upgrade waits for its maintenance window
	WindowMissing Reason = "WindowMissing" // no maintenance window is long enough for the upgrade
)

// Modules are the reasons of a module in a report.
var Modules = []Reason{
	Forbidden, ApplyFailed, Immutable, Conflict, Protected, UnknownKind, ImagesBroken, ImagePull, ContentMissing,
	ContentBroken, SourceBroken, Timeout, Installing, Removing, Restoring, CustomResourcesExist, ReportsError,
	ReportsWarning, Progressing, WindowAwaited, WindowMissing, ValueUndefined, Other,
}

// Reasons of the Secrets in a report: why a Secret does not match the bundle. Forbidden and Conflict also apply.
const (
	SecretsUnreadable Reason = "SecretsUnreadable" // the agent cannot decrypt the Secrets
	NamespaceMissing  Reason = "NamespaceMissing"  // the namespace of a Secret does not exist
	WriteFailed       Reason = "WriteFailed"       // the API server refuses a Secret
)

// Secrets are the reasons of Secrets in a report.
var Secrets = []Reason{SecretsUnreadable, NamespaceMissing, Conflict, Forbidden, WriteFailed, Other}

// Reasons why the publisher does not push a newer bundle for a runtime, or does not seal its Secrets. They only appear
// in the status of its Kyma.
const (
	DuplicateRuntimeID Reason = "DuplicateRuntimeID" // another Kyma owns the runtime id
	RuntimeUnassigned  Reason = "RuntimeUnassigned"  // several Kymas have the runtime ID, and no operator assigned it
	// an operator released the runtime or assigned it to another Kyma
	RuntimeHandedOver    Reason = "RuntimeHandedOver"
	CloneDetected        Reason = "CloneDetected"        // two agents report with the runtime's key
	RuntimeIDInvalid     Reason = "RuntimeIDInvalid"     // the runtime id has an invalid form
	RuntimeIDChanged     Reason = "RuntimeIDChanged"     // the label identifies a different runtime than before
	PinsInvalid          Reason = "PinsInvalid"          // the annotation that pins versions cannot be parsed
	AnnotationInvalid    Reason = "AnnotationInvalid"    // another annotation cannot be parsed
	RegistryNotAnswering Reason = "RegistryNotAnswering" // the registry fails for this runtime only
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

// Reasons why the publisher cannot use a runtime's report, in addition to the refusals of package refusal. They only
// appear in the status of its Kyma.
const (
	ReportUnreadable Reason = "ReportUnreadable" // the registry responds but does not return the report
	RequestTruncated Reason = "RequestTruncated" // the report omits the modules that the runtime requests
)
