package v1beta2

// Labels and annotations that Kyma gives a meaning.
const (
	LabelModuleName         = Group + "/module-name"
	LabelKymaName           = Group + "/kyma-name"
	LabelChannel            = Group + "/channel"
	LabelManagedBy          = Group + "/managed-by"
	LabelWatchedBy          = Group + "/watched-by"
	LabelPurpose            = Group + "/purpose"
	LabelControllerName     = Group + "/controller-name"
	LabelBeta               = Group + "/beta"
	LabelInternal           = Group + "/internal"
	LabelSkipReconciliation = Group + "/skip-reconciliation"
	LabelMandatoryModule    = Group + "/mandatory-module"
	// LabelSync is "false" on a Kyma whose runtime has no say in what it runs and sees no catalog, and on a ModuleTemplate that no
	// runtime shall see.
	LabelSync = Group + "/sync"
	// LabelSignature is on Secrets with public keys; its value is the name of the signatures that they verify.
	LabelSignature = Group + "/signature"
	// LabelForceDeletion is ours: a deleted Kyma with it does not wait for its runtime.
	LabelForceDeletion = "kyma-pull.dev/force-deletion"
	// LabelRuntimeGone is ours: "true" on a Kyma in KCP whose runtime's cluster does not exist any more. Once deleted, it goes at once, also while
	// the registry is down.
	LabelRuntimeGone = "kyma-pull.dev/runtime-gone"
	// LabelControlPlane is ours: "true" on the Kyma in KCP whose runtime is the control plane's own cluster. Only there go modules whose target
	// is the control plane.
	LabelControlPlane = "kyma-pull.dev/control-plane"
	// LabelSecretFor is ours: a Secret with it is for the runtime that its value names. Kyma's own label of runtimes would not do, which is
	// on Secrets that no runtime is to see.
	LabelSecretFor = "kyma-pull.dev/secret-for"
	// LabelSealed is ours: in a runtime, it is "true" on the Secrets that came sealed in a bundle.
	LabelSealed = "kyma-pull.dev/sealed"

	AnnotationFQDN          = Group + "/fqdn"
	AnnotationOwnedBy       = Group + "/owned-by"
	AnnotationClusterScoped = Group + "/is-cluster-scoped"
	// AnnotationCustomStateCheck holds a ModuleTemplate's spec.customStateCheck on its Manifest, in JSON.
	AnnotationCustomStateCheck = Group + "/custom-state-check"
	// AnnotationAdopt is ours: on an object in a runtime, the Manifest, as NAMESPACE/NAME, that may take it over although it did not make it.
	AnnotationAdopt = "kyma-pull.dev/adopt"
	// AnnotationModule is ours: the name by which a module was asked for, where no label can hold it.
	AnnotationModule = "kyma-pull.dev/module"
	// AnnotationRevokedKeys is ours: thumbprints of agents' keys, separated by spaces, whose reports are not believed any more.
	AnnotationRevokedKeys = "kyma-pull.dev/revoked-keys"
	// AnnotationReconcileRequested is Flux's: a new value on a Kyma in KCP asks the publisher to look at it now, at the runtime's report and at what
	// the registry holds too. status.lastHandledReconcileAt has the value once that is done.
	AnnotationReconcileRequested = "reconcile.fluxcd.io/requestedAt"
	// AnnotationSuspendReason is ours: why a Kyma has LabelSkipReconciliation, for people.
	AnnotationSuspendReason = "kyma-pull.dev/suspend-reason"
	// AnnotationRootOfTrust is ours: on the publisher's Lease, in JSON, fleet, epoch, version and end of the root of trust that it signs by. It is for people
	// and programs that have no keys; nothing is decided by it.
	AnnotationRootOfTrust = "kyma-pull.dev/root-of-trust"
	// AnnotationAutonomy is ours: "Catalog" on a Kyma whose runtime may choose from the offers of its last bundle by itself.
	AnnotationAutonomy = "kyma-pull.dev/autonomy"
	// AnnotationAgentImage is ours: the image, by digest, that the agent of a Kyma's runtime shall run; empty for the one it has.
	AnnotationAgentImage = "kyma-pull.dev/agent-image"
	// AnnotationImages is ours: where a Manifest's images are to come from, and with which Secret they are pulled, as the settings of a bundle have it
	// in JSON.
	AnnotationImages = "kyma-pull.dev/images"
	// AnnotationApplied is ours: on a Manifest, the version that was applied whole last, as AppliedVersion in JSON.
	AnnotationApplied = "kyma-pull.dev/applied"
	// AnnotationAppliedSignature is ours: the signature of AnnotationApplied by the key of the runtime's agent, in base64. A version without it is
	// reported, and not kept in line.
	AnnotationAppliedSignature = "kyma-pull.dev/applied-signature"
	// AnnotationRecreate is ours: on an object in a module's content, or on a ModuleTemplate for all objects of its version, "true" lets agents
	// delete and create again an object whose change the API server refuses because the field is immutable. RecreateWithData lets them do so
	// with an object of a kind that holds data, on that object in the content only.
	AnnotationRecreate = "kyma-pull.dev/recreate"
	// AnnotationRecreated is ours: on a Manifest, a digest of the version for which objects were last deleted to be created again, and the UIDs
	// of those objects. No other object is deleted for that version.
	AnnotationRecreated = "kyma-pull.dev/recreated"
	// AnnotationRenamedFrom is ours: on a ModuleTemplate, the name that its module had before. Where that one is installed and to be removed, this one
	// takes over its objects and custom resources instead. Bundles carry it to the Manifest, with the name of the other Manifest.
	AnnotationRenamedFrom = "kyma-pull.dev/renamed-from"
	// AnnotationRequiresFeatures is ours: on a ModuleTemplate, the features of agents, divided by commas, without which its version is not installed.
	// Bundles carry it to the Manifest.
	AnnotationRequiresFeatures = "kyma-pull.dev/requires-features"
	// AnnotationRenamedTo is ours: on a Manifest whose module was renamed, the Manifest that takes over its objects.
	AnnotationRenamedTo = "kyma-pull.dev/renamed-to"
	// AnnotationRemoval is ours: "true" on a Manifest whose module the agent removes, because a bundle says so. One that is deleted without it
	// comes back, and its module stays.
	AnnotationRemoval = "kyma-pull.dev/removal"
	// AnnotationRestoring is ours: "true" on a Manifest that comes back, until it has the list of its module's objects again.
	AnnotationRestoring = "kyma-pull.dev/restoring"
	// AnnotationCarried is ours: it says on a Kyma in KCP that what its runtime reports is carried by hand, and how long that may
	// take, as a duration such as 2160h; "true" stands for 90 days.
	AnnotationCarried = "kyma-pull.dev/carried"
	// AnnotationSecretName and AnnotationSecretNamespace are ours: what a Secret for a runtime is called there, by default as in the
	// control plane, and in the namespace kyma-system.
	AnnotationSecretName      = "kyma-pull.dev/secret-name"
	AnnotationSecretNamespace = "kyma-pull.dev/secret-namespace"
	AnnotationUnmanaged       = Group + "/is-unmanaged"
	// AnnotationPublicFields is ours: fields of a ModuleTemplate or ModuleReleaseMeta, between commas, that look like a secret and are
	// none, such as "spec.data.spec.example".
	AnnotationPublicFields = "kyma-pull.dev/public-fields"
	// AnnotationGitCommit is ours: the commit that brought an object of the control plane to what it says, and AnnotationGitDigest the
	// sha256 of what that commit says of it. Neither leaves the control plane.
	AnnotationGitCommit = "kyma-pull.dev/git-commit"
	AnnotationGitDigest = "kyma-pull.dev/git-digest"
	// LabelShard is ours: which shard of the publisher a Kyma belongs to, such as 3-of-6. The publisher sets it, and sets it back.
	LabelShard = "kyma-pull.dev/shard"
	// AnnotationPrune is ours: PruneDisabled on an object of the control plane that no commit may delete by leaving it out.
	AnnotationPrune = "kyma-pull.dev/prune"
	PruneDisabled   = "disabled"
	// AnnotationAllowPrune is ours: on the ConfigMap kyma-pull-git, the commit that may delete whatever it leaves out.
	AnnotationAllowPrune = "kyma-pull.dev/allow-prune"
	// AnnotationMaintenanceWindows is ours: the windows of one runtime on its Kyma in KCP, in JSON, instead of the policy's.
	// Their times have a fixed offset from UTC and know no daylight saving time: 02:00:00+02:00 is 01:00 in Berlin in winter.
	AnnotationMaintenanceWindows = "kyma-pull.dev/maintenance-windows"
	// AnnotationTarget says on a ModuleTemplate which cluster it is for: spec.target of v1beta1.
	AnnotationTarget = Group + "/target"
	// AnnotationSyncCatalog is "false" on a Kyma whose runtime shall not see the catalog, AnnotationNoModuleCopy "true" on one whose
	// modules shall not be seeded into the runtime: spec.sync.moduleCatalog and spec.sync.noModuleCopy of v1beta1.
	AnnotationSyncCatalog  = Group + "/sync-module-catalog"
	AnnotationNoModuleCopy = Group + "/sync-no-module-copy"

	LabelRuntimeID       = "kyma-project.io/runtime-id"
	LabelInstanceID      = "kyma-project.io/instance-id"
	LabelGlobalAccountID = "kyma-project.io/global-account-id"
	LabelSubaccountID    = "kyma-project.io/subaccount-id"
	LabelRegion          = "kyma-project.io/region"
	LabelPlatformRegion  = "kyma-project.io/platform-region"
	LabelPlan            = "kyma-project.io/broker-plan-name"

	// True is the value that switches a label on.
	True = "true"
	// RecreateWithData is the value of AnnotationRecreate for an object whose data may go with it.
	RecreateWithData = "with-data"
	// False is the value that switches off what is on by itself.
	False = "false"
	// ManagedByKyma is the value of LabelManagedBy on what Kyma keeps.
	ManagedByKyma = "kyma"
	// TargetControlPlane is the value of AnnotationTarget for what only the control plane's own cluster gets.
	TargetControlPlane = "control-plane"
)

// Names in the runtime: where Kyma lives there and what it is called.
const (
	RuntimeNamespace = "kyma-system"
	RuntimeKymaName  = "default"
)

// Finalizers.
const (
	FinalizerKyma     = Group + "/Kyma"
	FinalizerManifest = "declarative.kyma-project.io/finalizer"
)

// Condition types. Modules, ModuleCatalog and SKRWebhook are Kyma's own on a Kyma, Resources and Installation on a Manifest.
const (
	ConditionReady         = "Ready"
	ConditionModules       = "Modules"
	ConditionModuleCatalog = "ModuleCatalog"
	// ConditionSKRWebhook says on a Kyma on either side whether the runtime watches what the Watchers ask for; it is absent when there are none.
	ConditionSKRWebhook   = "SKRWebhook"
	ConditionResources    = "Resources"
	ConditionInstallation = "Installation"
	// ConditionImages says on a Manifest whether the images of its objects are those that its component lists.
	ConditionImages = "Images"
	// ConditionReporting says on a Kyma in KCP whether the runtime has been heard within its allowed silence.
	ConditionReporting = "Reporting"
	// ConditionRegistry is False on a Kyma in KCP when the registry did not hold what was published, until it does again, and on the Kyma of a
	// runtime while its agent can read no bundle from the registry; it is there only after such a deviation or outage.
	ConditionRegistry = "Registry"
	// ConditionAgent is False on a Kyma whose agent does not run the image that its bundle names; it is there only after such trouble.
	ConditionAgent = "Agent"
	// ConditionFeatures is False on a Kyma in KCP while its agent does not understand all that its bundle would say; it is there only after that.
	ConditionFeatures = "Features"
	// ConditionSynced is False on a Kyma on either side while the agent cannot write what the bundle in force says into the runtime, or cannot
	// keep a newer bundle there; it is there only after such trouble.
	ConditionSynced = "Synced"
	// ConditionAccepted says on a Kyma in a runtime whether the newest bundle was accepted, and otherwise why not.
	ConditionAccepted = "Accepted"
	// ConditionSecrets says on a Kyma on either side whether the runtime's Secrets are there as sealed; it is absent when there are none.
	ConditionSecrets = "Secrets"
	// ConditionEnrolled is ours: whether the control plane can know the agent's reports as the runtime's. Only the runtime's own Kyma has it, and only
	// once it was false.
	ConditionEnrolled = "Enrolled"
)

// State is the summary of an object for people.
// +kubebuilder:validation:Enum=Processing;Deleting;Ready;Error;"";Warning;Unmanaged
type State string

// States, as Kyma names them.
const (
	StateReady      State = "Ready"
	StateProcessing State = "Processing"
	StateError      State = "Error"
	StateWarning    State = "Warning"
	StateDeleting   State = "Deleting"
	StateUnmanaged  State = "Unmanaged"
)

// CustomResourcePolicy says what becomes of a module's default CR.
// +kubebuilder:validation:Enum=CreateAndDelete;Ignore
type CustomResourcePolicy string

// Policies: make the default CR with the module and remove it with it, or never touch it.
const (
	PolicyCreateAndDelete CustomResourcePolicy = "CreateAndDelete"
	PolicyIgnore          CustomResourcePolicy = "Ignore"
)
