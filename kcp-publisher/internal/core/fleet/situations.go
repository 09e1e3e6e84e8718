package fleet

// Situation is the machine-readable name of a problem. Metrics use it as a label value, so existing values must not be
// renamed.
type Situation string

// These situations occur before a bundle is published.
const (
	Suspension           Situation = "Suspended"
	NotLookedAt          Situation = "NotLookedAt"
	DuplicateRuntimeID   Situation = "DuplicateRuntimeID"
	RuntimeUnassigned    Situation = "RuntimeUnassigned"
	RuntimeHandedOver    Situation = "RuntimeHandedOver"
	CloneDetected        Situation = "CloneDetected"
	RuntimeIDInvalid     Situation = "RuntimeIDInvalid"
	RuntimeIDChanged     Situation = "RuntimeIDChanged"
	RootExpired          Situation = "RootExpired"
	KeysNotAccepted      Situation = "KeysNotAccepted"
	PinsInvalid          Situation = "PinsInvalid"
	AnnotationInvalid    Situation = "AnnotationInvalid"
	RegistryNotAnswering Situation = "RegistryNotAnswering"
	PublishFailed        Situation = "PublishFailed"
	SecretMissing        Situation = "SecretMissing"
	SecretsNotSealed     Situation = "SecretsNotSealed"
)

// These situations concern requested modules that the publisher cannot resolve.
const (
	ModuleUnknown      Situation = "ModuleUnknown"
	ChannelMissing     Situation = "ChannelMissing"
	TemplateMissing    Situation = "TemplateMissing"
	TemplateDoubled    Situation = "TemplateDoubled"
	CatalogInvalid     Situation = "CatalogInvalid"
	ModuleUnresolved   Situation = "ModuleUnresolved"
	PinUnavailable     Situation = "PinUnavailable"
	ModuleNotOffered   Situation = "ModuleNotOffered"
	ComponentNotFound  Situation = "ComponentNotFound"
	ComponentUnsigned  Situation = "ComponentUnsigned"
	ComponentBroken    Situation = "ComponentBroken"
	OlderVersionAsked  Situation = "OlderVersionAsked"
	ModuleNotInherited Situation = "ModuleNotInherited"
	RemovalHeld        Situation = "RemovalHeld"
	ValueUndefined     Situation = "ValueUndefined"
	ValueInvalid       Situation = "ValueInvalid"
)

// These situations occur after a bundle is published and before the runtime reports it.
const (
	RegistryLost       Situation = "RegistryLost"
	RegistryTampered   Situation = "RegistryTampered"
	KeyRevoked         Situation = "KeyRevoked"
	EnrollmentRefused  Situation = "EnrollmentRefused"
	ForeignKey         Situation = "ForeignKey"
	RuntimeClockAhead  Situation = "RuntimeClockAhead"
	RuntimeClockBehind Situation = "RuntimeClockBehind"
	ReportRefused      Situation = "ReportRefused"
	ReportUnreadable   Situation = "ReportUnreadable"
	NeverEnrolled      Situation = "NeverEnrolled"
	NeverCarried       Situation = "NeverCarried"
	SilentRuntime      Situation = "Silent"
	CarriedTooOld      Situation = "CarriedTooOld"
	PublisherAbsent    Situation = "PublisherAbsent"
	CommitHeld         Situation = "CommitHeld"
	ReportTruncated    Situation = "ReportTruncated"
)

// These situations concern a bundle that the runtime has received.
const (
	BundleExpired         Situation = "BundleExpired"
	BundleWrongRuntime    Situation = "BundleWrongRuntime"
	BundleDowngrade       Situation = "BundleDowngrade"
	BundleClock           Situation = "BundleClock"
	BundleKeyUnknown      Situation = "BundleKeyUnknown"
	BundleRootExpired     Situation = "BundleRootExpired"
	BundleReplayed        Situation = "BundleReplayed"
	BundleNotReleased     Situation = "BundleNotReleased"
	BundleRefused         Situation = "BundleRefused"
	BundleNotTaken        Situation = "BundleNotTaken"
	BundleNotKept         Situation = "BundleNotKept"
	BundlePending         Situation = "BundlePending"
	CarryPending          Situation = "CarryPending"
	RuntimePinsUnreadable Situation = "RuntimePinsUnreadable"
	ObjectRefused         Situation = "ObjectRefused"
	SecretsNotWritten     Situation = "SecretsNotWritten"
	AgentRolledBack       Situation = "AgentRolledBack"
	AgentOutdated         Situation = "AgentOutdated"
	TakeoverWaits         Situation = "TakeoverWaits"
)

// These situations concern modules in the runtime.
const (
	ModuleImmutable      Situation = "ModuleImmutable"
	ModuleConflict       Situation = "ModuleConflict"
	ModuleForbidden      Situation = "ModuleForbidden"
	ModuleProtected      Situation = "ModuleProtected"
	ModuleKindUnknown    Situation = "ModuleKindUnknown"
	ModuleImages         Situation = "ModuleImages"
	ModuleImagePull      Situation = "ModuleImagePull"
	ModuleContentMissing Situation = "ModuleContentMissing"
	ModuleContentBroken  Situation = "ModuleContentBroken"
	ModuleApplyFailed    Situation = "ModuleApplyFailed"
	ModuleNotReadyInTime Situation = "ModuleNotReadyInTime"
	ModuleBroken         Situation = "ModuleBroken"
	ModuleWarning        Situation = "ModuleWarning"
	ModuleRemovalBlocked Situation = "ModuleRemovalBlocked"
	ModuleProcessing     Situation = "ModuleProcessing"
	ModuleStuck          Situation = "ModuleStuck"
	Unexplained          Situation = "Unexplained"
	NotReady             Situation = "NotReady"
	WatcherNotServed     Situation = "WatcherNotServed"
	// CheckFailed means that a module is ready but fails a check that its rollout requires.
	CheckFailed Situation = "CheckFailed"
)

// These situations apply to deleted Kymas, and to healthy runtimes that do not have the newest module version yet.
const (
	DeletionWaits    Situation = "DeletionWaits"
	DeletionOverdue  Situation = "DeletionOverdue"
	WindowAwaited    Situation = "WindowAwaited"
	WindowMissing    Situation = "WindowMissing"
	RolloutHolds     Situation = "RolloutHolds"
	RolloutPaused    Situation = "RolloutPaused"
	RolloutStopped   Situation = "RolloutStopped"
	RolloutTookBack  Situation = "RolloutTookBack"
	RolloutWithdrawn Situation = "RolloutWithdrawn"
	ModuleRemark     Situation = "ModuleRemark"
)

// These situations concern the agent certificate of one runtime.
const (
	CertificateExpired     Situation = "CertificateExpired"
	CertificateExpiresSoon Situation = "CertificateExpiresSoon"
)

// These situations concern the whole fleet.
const (
	RootExpiresSoon Situation = "RootExpiresSoon"
	CertificatesEnd Situation = "CertificatesEnd"
	// VersionRejected means that a channel offers a version although a rollout to this version was stopped or rolled
	// back.
	VersionRejected Situation = "VersionRejected"
	// PolicyInvalid means that a RolloutPolicy is invalid, so rollouts with this policy cannot start.
	PolicyInvalid Situation = "PolicyInvalid"
	// PolicyUnmatched means that the catalog contains none of the modules that a RolloutPolicy names, so the policy has
	// no effect.
	PolicyUnmatched Situation = "PolicyUnmatched"
	// TrainBlocked means that a promotion train cannot promote a version until an operator resolves a problem.
	TrainBlocked Situation = "TrainBlocked"
	FleetSilent  Situation = "FleetSilent"
	CommitHolds  Situation = "CommitHolds"
	// CatalogObjectLeftOut means that all bundles omit a ModuleTemplate or ModuleReleaseMeta, because agents would refuse
	// it.
	CatalogObjectLeftOut Situation = "CatalogObjectLeftOut"
)

// Description explains a situation to an operator. The advice contains placeholders such as RUNTIME and MODULE.
type Description struct {
	Situation Situation
	// Health is the health of a runtime with this situation, or empty for a warning about the fleet.
	Health  Health
	Meaning string
	Advice  string
}
