package v1beta2

// Labels and annotations that Kyma gives a meaning.
const (
	// LabelModuleName is the name of a module: on a ModuleTemplate whose spec does not name it, on a Manifest, on the
	// objects that a module brought, and on a Secret for a runtime that belongs to a module.
	LabelModuleName = Group + "/module-name"
	// LabelKymaName is on a Manifest the name of its Kyma: in a runtime always "default".
	LabelKymaName = Group + "/kyma-name"
	// LabelChannel is on a Manifest the channel that its version came by.
	LabelChannel = Group + "/channel"
	// LabelManagedBy is "kyma" on what the agent keeps as its bundle says: the runtime's Kyma, Manifests, the catalog, the
	// objects of modules and the namespace kyma-system.
	LabelManagedBy = Group + "/managed-by"
	// LabelWatchedBy is "kyma" on the Kyma in a runtime, as other programs of Kyma expect it; nothing here reads it.
	LabelWatchedBy = Group + "/watched-by"
	// LabelPurpose says on a Kyma what its runtime is for; it is copied to the Kyma in the runtime.
	LabelPurpose = Group + "/purpose"
	// LabelControllerName is on a ModuleTemplate the name under which spec.modules[].controller of a Kyma selects it; its
	// Manifest has the same label.
	LabelControllerName = Group + "/controller-name"
	// LabelBeta is "true" on a Kyma that may have beta modules, and on a ModuleTemplate or ModuleReleaseMeta that only
	// such Kymas may have.
	LabelBeta = Group + "/beta"
	// LabelInternal is "true" on a Kyma that may have internal modules, and on a ModuleTemplate or ModuleReleaseMeta that
	// only such Kymas may have.
	LabelInternal = Group + "/internal"
	// LabelSkipReconciliation is "true" on a Kyma in KCP to which nothing new is published, and on a Manifest in a runtime
	// that the agent leaves as it is.
	LabelSkipReconciliation = Group + "/skip-reconciliation"
	// LabelMandatoryModule is "true" on the Manifest of a module that every runtime gets unasked.
	LabelMandatoryModule = Group + "/mandatory-module"
	// LabelSync is "false" on a Kyma whose runtime has no say in what it runs and sees no catalog, and on a ModuleTemplate
	// that no runtime shall see.
	LabelSync = Group + "/sync"
	// LabelSignature is on Secrets with public keys; its value is the name of the signatures that they verify.
	LabelSignature = Group + "/signature"
	// LabelForceDeletion is ours: a deleted Kyma with it does not wait for its runtime.
	LabelForceDeletion = "kyma-pull.dev/force-deletion"
	// LabelRuntimeGone is ours: "true" on a Kyma in KCP whose runtime's cluster does not exist any more. Once deleted, it
	// goes at once, also while the registry is down.
	LabelRuntimeGone = "kyma-pull.dev/runtime-gone"
	// LabelControlPlane is ours: "true" on the Kyma in KCP whose runtime is the control plane's own cluster. Only there go
	// modules whose target is the control plane.
	LabelControlPlane = "kyma-pull.dev/control-plane"
	// LabelSecretFor is ours: a Secret with it is for the runtime that its value names. Kyma's own label of runtimes would
	// not do, which is on Secrets that no runtime is to see.
	LabelSecretFor = "kyma-pull.dev/secret-for"
	// LabelSealed is ours: in a runtime, it is "true" on the Secrets that came sealed in a bundle.
	LabelSealed = "kyma-pull.dev/sealed"

	// AnnotationFQDN is on a Manifest the name of the OCM component that its module is from.
	AnnotationFQDN = Group + "/fqdn"
	// AnnotationOwnedBy is on an object of a module the Manifest, as NAMESPACE/NAME, that it came with.
	AnnotationOwnedBy = Group + "/owned-by"
	// AnnotationClusterScoped says on a ModuleTemplate that its default CR has no namespace; it is accepted and without
	// effect, because the API server tells.
	AnnotationClusterScoped = Group + "/is-cluster-scoped"
	// AnnotationCustomStateCheck holds a ModuleTemplate's spec.customStateCheck on its Manifest, in JSON.
	AnnotationCustomStateCheck = Group + "/custom-state-check"
	// AnnotationAdopt is ours: on an object in a runtime, the Manifest, as NAMESPACE/NAME, that may take it over although
	// it did not make it.
	AnnotationAdopt = "kyma-pull.dev/adopt"
	// AnnotationModule is ours: the name by which a module was asked for, where no label can hold it.
	AnnotationModule = "kyma-pull.dev/module"
	// AnnotationRevokedKeys is ours: thumbprints of agents' keys, separated by spaces, whose reports are not believed any
	// more.
	AnnotationRevokedKeys = "kyma-pull.dev/revoked-keys"
	// AnnotationReconcileRequested is Flux's: a new value on a Kyma in KCP asks the publisher to look at it now, at the
	// runtime's report and at what the registry holds too. status.lastHandledReconcileAt has the value once that is done.
	AnnotationReconcileRequested = "reconcile.fluxcd.io/requestedAt"
	// AnnotationSuspendReason is ours: why a Kyma has LabelSkipReconciliation, for people.
	AnnotationSuspendReason = "kyma-pull.dev/suspend-reason"
	// AnnotationRootOfTrust is ours: on the publisher's Lease, in JSON, fleet, epoch, version and end of the root of trust
	// that it signs by. It is for people and programs that have no keys; nothing is decided by it.
	AnnotationRootOfTrust = "kyma-pull.dev/root-of-trust"
	// AnnotationAutonomy is ours: "Catalog" on a Kyma whose runtime may choose from the offers of its last bundle by
	// itself.
	AnnotationAutonomy = "kyma-pull.dev/autonomy"
	// AnnotationAgentImage is ours: the image, by digest, that the agent of a Kyma's runtime shall run; empty for the one
	// it has.
	AnnotationAgentImage = "kyma-pull.dev/agent-image"
	// AnnotationImages is ours: where a Manifest's images are to come from, and with which Secret they are pulled, as the
	// settings of a bundle have it in JSON.
	AnnotationImages = "kyma-pull.dev/images"
	// AnnotationApplied is ours: on a Manifest, the version that was applied whole last, as AppliedVersion in JSON.
	AnnotationApplied = "kyma-pull.dev/applied"
	// AnnotationAppliedSignature is ours: the signature of AnnotationApplied by the key of the runtime's agent, in base64.
	// A version without it is reported, and not kept in line.
	AnnotationAppliedSignature = "kyma-pull.dev/applied-signature"
	// AnnotationRecreate is ours: on an object in a module's content, or on a ModuleTemplate for all objects of its
	// version, "true" lets agents delete and create again an object whose change the API server refuses because the field
	// is immutable. RecreateWithData lets them do so with an object of a kind that holds data, on that object in the
	// content only.
	AnnotationRecreate = "kyma-pull.dev/recreate"
	// AnnotationRecreated is ours: on a Manifest, a digest of the version for which objects were last deleted to be
	// created again, and the UIDs of those objects. No other object is deleted for that version.
	AnnotationRecreated = "kyma-pull.dev/recreated"
	// AnnotationRequiresFeatures is ours: on a ModuleTemplate, the features of agents, divided by commas, without which
	// its version is not installed. Bundles carry it to the Manifest.
	AnnotationRequiresFeatures = "kyma-pull.dev/requires-features"
	// AnnotationRemoval is ours: "true" on a Manifest whose module the agent removes, because a bundle says so. One that
	// is deleted without it comes back, and its module stays.
	AnnotationRemoval = "kyma-pull.dev/removal"
	// AnnotationRestoring is ours: "true" on a Manifest that comes back, until it has the list of its module's objects
	// again.
	AnnotationRestoring = "kyma-pull.dev/restoring"
	// AnnotationCarried is ours: it says on a Kyma in KCP that what its runtime reports is carried by hand, and how long
	// that may take, as a duration such as 2160h; "true" stands for 90 days.
	AnnotationCarried = "kyma-pull.dev/carried"
	// AnnotationSecretName and AnnotationSecretNamespace are ours: what a Secret for a runtime is called there, by default
	// as in the control plane, and in the namespace kyma-system.
	AnnotationSecretName      = "kyma-pull.dev/secret-name"
	AnnotationSecretNamespace = "kyma-pull.dev/secret-namespace"
	// AnnotationUnmanaged is "true" on a Manifest whose module is not managed any more: the agent removes the Manifest and
	// leaves the module's objects in place.
	AnnotationUnmanaged = Group + "/is-unmanaged"
	// AnnotationPublicFields is ours: fields of a ModuleTemplate or ModuleReleaseMeta, between commas, that look like a
	// secret and are none, such as "spec.data.spec.example".
	AnnotationPublicFields = "kyma-pull.dev/public-fields"
	// AnnotationGitCommit is ours: the commit that brought an object of the control plane to what it says, and
	// AnnotationGitDigest the sha256 of what that commit says of it. Neither leaves the control plane.
	AnnotationGitCommit = "kyma-pull.dev/git-commit"
	AnnotationGitDigest = "kyma-pull.dev/git-digest"
	// LabelShard is ours: which shard of the publisher a Kyma belongs to, such as 3-of-6. The publisher sets it, and sets
	// it back.
	LabelShard = "kyma-pull.dev/shard"
	// AnnotationPrune is ours: PruneDisabled on an object of the control plane that no commit may delete by leaving it
	// out.
	AnnotationPrune = "kyma-pull.dev/prune"
	PruneDisabled   = "disabled"
	// AnnotationAllowPrune is ours: on the ConfigMap kyma-pull-git, the commit that may delete whatever it leaves out.
	AnnotationAllowPrune = "kyma-pull.dev/allow-prune"
	// AnnotationMaintenanceWindows is ours: the windows of one runtime on its Kyma in KCP, in JSON, instead of the
	// policy's. Their times have a fixed offset from UTC and know no daylight saving time: 02:00:00+02:00 is 01:00 in
	// Berlin in winter.
	AnnotationMaintenanceWindows = "kyma-pull.dev/maintenance-windows"
	// AnnotationEarlyUpgrades is ours: "true" on a Kyma in KCP allows the runtime's admin to upgrade before the next
	// maintenance window, with spec.skipMaintenanceWindows or AnnotationUpgradeAt of the runtime's Kyma.
	AnnotationEarlyUpgrades = "kyma-pull.dev/early-upgrades"
	// AnnotationUpgradeAt is ours: on a runtime's Kyma, the time, such as 2026-11-21T21:00:00Z, from which upgrades do not
	// wait for the next maintenance window. The choice ends when that window begins.
	AnnotationUpgradeAt = "kyma-pull.dev/upgrade-at"
	// AnnotationTarget says on a ModuleTemplate which cluster it is for: spec.target of v1beta1.
	AnnotationTarget = Group + "/target"
	// AnnotationSyncCatalog is "false" on a Kyma whose runtime shall not see the catalog, AnnotationNoModuleCopy "true" on
	// one whose modules shall not be seeded into the runtime: spec.sync.moduleCatalog and spec.sync.noModuleCopy of
	// v1beta1.
	AnnotationSyncCatalog  = Group + "/sync-module-catalog"
	AnnotationNoModuleCopy = Group + "/sync-no-module-copy"

	// LabelRuntimeID is on a Kyma in KCP the id of its runtime. A Kyma without it has its own name as the id.
	LabelRuntimeID = "kyma-project.io/runtime-id"
	// LabelInstanceID is on a Kyma in KCP the id of its service instance. It reaches the runtime's Kyma where
	// --kyma-labels names it.
	LabelInstanceID = "kyma-project.io/instance-id"
	// LabelGlobalAccountID is on a Kyma in KCP the global account that its runtime belongs to, by which rules for
	// maintenance windows match. It reaches the runtime's Kyma where --kyma-labels names it.
	LabelGlobalAccountID = "kyma-project.io/global-account-id"
	// LabelSubaccountID is on a Kyma in KCP the subaccount that its runtime belongs to. It reaches the runtime's Kyma
	// where --kyma-labels names it.
	LabelSubaccountID = "kyma-project.io/subaccount-id"
	// LabelRegion is on a Kyma in KCP the region of its runtime's cluster, by which rules for maintenance windows match.
	LabelRegion = "kyma-project.io/region"
	// LabelPlatformRegion is on a Kyma in KCP the region of its account's platform, by which rules for maintenance windows
	// match.
	LabelPlatformRegion = "kyma-project.io/platform-region"
	// LabelPlan is on a Kyma in KCP the plan that its runtime was ordered by, by which rules for maintenance windows
	// match.
	LabelPlan = "kyma-project.io/broker-plan-name"

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
	// FinalizerKyma keeps a deleted Kyma in KCP until its runtime is empty, or is not waited for any more.
	FinalizerKyma = Group + "/Kyma"
	// FinalizerManifest keeps a deleted Manifest in a runtime until its module's objects are removed.
	FinalizerManifest = "declarative.kyma-project.io/finalizer"
)

// Condition types. Modules, ModuleCatalog and SKRWebhook are Kyma's own on a Kyma, Resources and Installation on a
// Manifest.
const (
	// ConditionReady says whether the state is Ready: on a Kyma that all it asks for is installed and works, on a Manifest
	// that its module does, on a Watcher that runtimes are asked to watch. The message says what is missing.
	ConditionReady = "Ready"
	// ConditionModules says on a Kyma on either side whether all modules that are managed are Ready. The message names one
	// that is not.
	ConditionModules = "Modules"
	// ConditionModuleCatalog says on a Kyma on either side whether the runtime has the catalog of the newest bundle, as
	// far as that side knows.
	ConditionModuleCatalog = "ModuleCatalog"
	// ConditionSKRWebhook says on a Kyma on either side whether the runtime watches what the Watchers ask for; it is
	// absent when there are none.
	ConditionSKRWebhook = "SKRWebhook"
	// ConditionResources says on a Manifest whether its content could be read and rendered to objects that may be applied.
	ConditionResources = "Resources"
	// ConditionInstallation says on a Manifest whether its objects are applied. It does not say that they work: that is
	// condition Ready.
	ConditionInstallation = "Installation"
	// ConditionImages says on a Manifest whether the images of its objects are those that its component lists.
	ConditionImages = "Images"
	// ConditionRights on a Manifest is Unknown if the rights of the module's ServiceAccount could not be reviewed. It is
	// set once that happened, and True after the next review.
	ConditionRights = "Rights"
	// ConditionReporting says on a Kyma in KCP whether the runtime has been heard within its allowed silence.
	ConditionReporting = "Reporting"
	// ConditionRegistry is False on a Kyma in KCP when the registry did not hold what was published, until it does again,
	// and on the Kyma of a runtime while its agent can read no bundle from the registry; it is there only after such a
	// deviation or outage.
	ConditionRegistry = "Registry"
	// ConditionAgent is False on a Kyma whose agent does not run the image that its bundle names; it is there only after
	// such trouble.
	ConditionAgent = "Agent"
	// ConditionFeatures is False on a Kyma in KCP while its agent does not understand all that its bundle would say; it is
	// there only after that.
	ConditionFeatures = "Features"
	// ConditionSynced is False on a Kyma on either side while the agent cannot write what the bundle in force says into
	// the runtime, or cannot keep a newer bundle there; it is there only after such trouble.
	ConditionSynced = "Synced"
	// ConditionAccepted says on a Kyma in a runtime whether the newest bundle was accepted, and otherwise why not.
	ConditionAccepted = "Accepted"
	// ConditionSecrets says on a Kyma on either side whether the runtime's Secrets are there as sealed; it is absent when
	// there are none.
	ConditionSecrets = "Secrets"
	// ConditionEnrolled is ours: whether the control plane can know the agent's reports as the runtime's. Only the
	// runtime's own Kyma has it, and only once it was false.
	ConditionEnrolled = "Enrolled"
)

// State is the summary of an object for people.
// +kubebuilder:validation:Enum=Processing;Deleting;Ready;Error;"";Warning;Unmanaged
type State string

// States, as Kyma names them.
const (
	// StateReady says that all is installed as asked for, and works.
	StateReady State = "Ready"
	// StateProcessing says that something is being installed, upgraded or removed, or that the runtime has not reported it
	// yet.
	StateProcessing State = "Processing"
	// StateError says that a module cannot be installed or does not work, or that no bundle can be published.
	StateError State = "Error"
	// StateWarning says that what is installed works on, and that somebody has to look: the message says at what.
	StateWarning State = "Warning"
	// StateDeleting says that the Kyma is deleted and its modules are being removed, or that one module is.
	StateDeleting State = "Deleting"
	// StateUnmanaged says of a module that it is left as it is: its spec.modules[].managed is false. The states of Kymas
	// do not count it.
	StateUnmanaged State = "Unmanaged"
)

// CustomResourcePolicy says what becomes of a module's default CR.
// +kubebuilder:validation:Enum=CreateAndDelete;Ignore
type CustomResourcePolicy string

// Policies: make the default CR with the module and remove it with it, or never touch it.
const (
	PolicyCreateAndDelete CustomResourcePolicy = "CreateAndDelete"
	PolicyIgnore          CustomResourcePolicy = "Ignore"
)
