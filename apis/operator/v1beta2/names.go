package v1beta2

// Labels and annotations of Kyma objects.
const (
	// LabelModuleName is the name of a module. It is set on a ModuleTemplate whose spec does not name the module, on a
	// Manifest, on a module's objects, and on a Secret for a runtime that belongs to a module.
	LabelModuleName = Group + "/module-name"
	// LabelKymaName is set on a Manifest to the name of its Kyma. In a runtime it is always "default".
	LabelKymaName = Group + "/kyma-name"
	// LabelChannel is set on a Manifest to the channel that its version was resolved from.
	LabelChannel = Group + "/channel"
	// LabelManagedBy is "kyma" on objects that the agent keeps in line with its bundle: the runtime's Kyma, Manifests,
	// the catalog, the objects of modules and the namespace kyma-system.
	LabelManagedBy = Group + "/managed-by"
	// LabelWatchedBy is "kyma" on the Kyma in a runtime, as other Kyma programs expect. This project does not read it.
	LabelWatchedBy = Group + "/watched-by"
	// LabelPurpose is the purpose of a Kyma's runtime. It is copied to the Kyma in the runtime.
	LabelPurpose = Group + "/purpose"
	// LabelControllerName is the name by which spec.modules[].controller of a Kyma selects a ModuleTemplate. Its
	// Manifest has the same label.
	LabelControllerName = Group + "/controller-name"
	// LabelBeta is "true" on a Kyma that can use beta modules, and on a ModuleTemplate or ModuleReleaseMeta that is
	// limited to such Kymas.
	LabelBeta = Group + "/beta"
	// LabelInternal is "true" on a Kyma that can use internal modules, and on a ModuleTemplate or ModuleReleaseMeta
	// that is limited to such Kymas.
	LabelInternal = Group + "/internal"
	// LabelSkipReconciliation is "true" on a Kyma in KCP to suspend publishing, and on a Manifest in a runtime that the
	// agent must not change.
	LabelSkipReconciliation = Group + "/skip-reconciliation"
	// LabelMandatoryModule is "true" on the Manifest of a mandatory module.
	LabelMandatoryModule = Group + "/mandatory-module"
	// LabelSync is "false" on a Kyma whose runtime cannot request modules and has no catalog, and on a ModuleTemplate
	// that must not reach any runtime.
	LabelSync = Group + "/sync"
	// LabelSignature is set on Secrets with public keys. Its value is the name of the signatures that the keys verify.
	LabelSignature = Group + "/signature"
	// LabelForceDeletion is specific to kyma-pull: a deleted Kyma with it does not wait for its runtime.
	LabelForceDeletion = "kyma-pull.dev/force-deletion"
	// LabelRuntimeGone is specific to kyma-pull: "true" on a Kyma in KCP whose runtime's cluster no longer exists. Its
	// deletion completes at once, even while the registry is unavailable.
	LabelRuntimeGone = "kyma-pull.dev/runtime-gone"
	// LabelControlPlane is specific to kyma-pull: "true" on the Kyma in KCP whose runtime is the control plane's own
	// cluster. Only this runtime gets the modules whose target is the control plane.
	LabelControlPlane = "kyma-pull.dev/control-plane"
	// LabelSecretFor is specific to kyma-pull: a Secret with it is delivered to the runtime that its value names.
	// Kyma's own label for runtimes is also set on Secrets that must stay in the control plane.
	LabelSecretFor = "kyma-pull.dev/secret-for"
	// LabelSealed is specific to kyma-pull: "true" on Secrets in a runtime that were delivered encrypted in a bundle.
	LabelSealed = "kyma-pull.dev/sealed"

	// AnnotationFQDN is set on a Manifest to the name of the OCM component of its module.
	AnnotationFQDN = Group + "/fqdn"
	// AnnotationOwnedBy is set on an object of a module to its Manifest, as NAMESPACE/NAME.
	AnnotationOwnedBy = Group + "/owned-by"
	// AnnotationClusterScoped marks a ModuleTemplate whose default CR has no namespace. It is accepted without effect:
	// the API server reports the scope.
	AnnotationClusterScoped = Group + "/is-cluster-scoped"
	// AnnotationCustomStateCheck contains a ModuleTemplate's spec.customStateCheck on its Manifest, in JSON.
	AnnotationCustomStateCheck = Group + "/custom-state-check"
	// AnnotationAdopt is specific to kyma-pull: set on an object in a runtime to the Manifest, as NAMESPACE/NAME, that
	// can take over the object although it did not create it.
	AnnotationAdopt = "kyma-pull.dev/adopt"
	// AnnotationModule is specific to kyma-pull: the requested name of a module, for names that a label cannot hold.
	AnnotationModule = "kyma-pull.dev/module"
	// AnnotationRevokedKeys is specific to kyma-pull: the thumbprints of revoked agent keys, separated by spaces.
	// Reports that they signed are refused.
	AnnotationRevokedKeys = "kyma-pull.dev/revoked-keys"
	// AnnotationHandOver is ours: the proof that an operator assigned the runtime to this very Kyma. `kcp-publisher
	// move` writes it. It is made with the fleet's token secret, so that write access to a Kyma is not enough.
	AnnotationHandOver = "kyma-pull.dev/hand-over"
	// AnnotationMovedAway is ours: `kcp-publisher move --away` sets it to true on a Kyma whose runtime moves to another
	// control plane. Nothing more is published, and deleting the Kyma removes nothing from the runtime.
	AnnotationMovedAway = "kyma-pull.dev/moved-away"
	// AnnotationPermissionProbe is specific to kyma-pull: no Kyma can have it. The chart's policy for settings of Kymas
	// refuses it for every user, so the publisher finds out by a dry run whether the policy is in force.
	AnnotationPermissionProbe = "kyma-pull.dev/permission-probe"
	// AnnotationReconcileRequested is Flux's: a new value on a Kyma in KCP makes the publisher reconcile it
	// immediately, including the runtime's report and the bundle in the registry. status.lastHandledReconcileAt has the
	// value afterwards.
	AnnotationReconcileRequested = "reconcile.fluxcd.io/requestedAt"
	// AnnotationSuspendReason is specific to kyma-pull: the reason why a Kyma has LabelSkipReconciliation, for readers.
	AnnotationSuspendReason = "kyma-pull.dev/suspend-reason"
	// AnnotationRootOfTrust is specific to kyma-pull: on the publisher's Lease, the fleet, epoch, version and expiry of
	// the current root of trust, in JSON. It informs readers without keys; no decision depends on it.
	AnnotationRootOfTrust = "kyma-pull.dev/root-of-trust"
	// AnnotationAutonomy is specific to kyma-pull: "Catalog" on a Kyma whose runtime can choose modules from the offers
	// of its last bundle by itself.
	AnnotationAutonomy = "kyma-pull.dev/autonomy"
	// AnnotationAgentImage is specific to kyma-pull: the image, by digest, that the agent of a Kyma's runtime must run.
	// Empty keeps its current image.
	AnnotationAgentImage = "kyma-pull.dev/agent-image"
	// AnnotationAgentRollbackFrom is specific to kyma-pull: digests of agent images, separated by commas, that the
	// agent of a Kyma's runtime can leave for an older one. Otherwise an agent does not return to an older image.
	AnnotationAgentRollbackFrom = "kyma-pull.dev/agent-rollback-from"
	// AnnotationImages is specific to kyma-pull: the image sources and pull Secret for a Manifest, as in the bundle's
	// settings, in JSON.
	AnnotationImages = "kyma-pull.dev/images"
	// AnnotationApplied is specific to kyma-pull: on a Manifest, the version that was last applied completely, as an
	// AppliedVersion in JSON.
	AnnotationApplied = "kyma-pull.dev/applied"
	// AnnotationAppliedSignature is specific to kyma-pull: the signature of AnnotationApplied by the agent's key, in
	// base64. A version without it is reported, but its drift is not corrected.
	AnnotationAppliedSignature = "kyma-pull.dev/applied-signature"
	// AnnotationRecreate is specific to kyma-pull: it allows agents to delete and recreate an object if the API server
	// refuses a change of an immutable field. It is "true" on an object in a module's content, or on a ModuleTemplate
	// for all objects of its version. RecreateWithData also covers an object of a kind that holds data, on that object
	// in the content only.
	AnnotationRecreate = "kyma-pull.dev/recreate"
	// AnnotationRecreated is specific to kyma-pull: on a Manifest, a digest of the version for which objects were last
	// recreated, and the UIDs of the deleted objects. No other object is deleted for that version.
	AnnotationRecreated = "kyma-pull.dev/recreated"
	// AnnotationIgnoreFields names fields of a module's object that the agent leaves to others once the object exists,
	// as JSON pointers (RFC 6901) in a JSON array or divided by commas. It is specific to kyma-pull.
	AnnotationIgnoreFields = "kyma-pull.dev/ignore-fields"
	// AnnotationDeleteWithData is specific to kyma-pull: "true" on a PersistentVolumeClaim, PersistentVolume or
	// Namespace that an upgrade may delete together with its data. Without it, the agent keeps such an object when a
	// version drops it.
	AnnotationDeleteWithData = "kyma-pull.dev/delete-with-data"
	// AnnotationCompletedJobs is specific to kyma-pull: on a Manifest, the digest of a version and its Jobs that have
	// completed and been deleted. The agent does not create them again for that version.
	AnnotationCompletedJobs = "kyma-pull.dev/completed-jobs"
	// AnnotationRequiresFeatures is specific to kyma-pull: on a ModuleTemplate, the agent features that its version
	// requires, separated by commas. Bundles copy it to the Manifest.
	AnnotationRequiresFeatures = "kyma-pull.dev/requires-features"
	// AnnotationValues is specific to kyma-pull: on a Kyma in KCP, named values of its runtime, as a JSON object of
	// strings. On a Manifest, the agent writes the values that the module uses; null is an undefined value.
	AnnotationValues = "kyma-pull.dev/values"
	// AnnotationReportDetails is specific to kyma-pull: on a Kyma in KCP, the details that its runtime adds to reports,
	// separated by commas: events, logs of failing containers, and objects of modules.
	AnnotationReportDetails = "kyma-pull.dev/report-details"
	// AnnotationCheckRun is specific to kyma-pull: on a Kyma in KCP, a request to measure checks once in its runtime,
	// as JSON with the fields id, module and checks. The result is in the runtime's report. `kcp-publisher rollout
	// check` writes it.
	AnnotationCheckRun = "kyma-pull.dev/check-run"
	// AnnotationUsesValues is specific to kyma-pull: on a ModuleTemplate, the names of the values that its default CR
	// and chart values refer to, separated by commas. Bundles copy it to the Manifest.
	AnnotationUsesValues = "kyma-pull.dev/uses-values"
	// AnnotationRemoval is specific to kyma-pull: "true" on a Manifest whose module the agent removes because of a
	// bundle. A Manifest that is deleted without it is restored, and its module stays.
	AnnotationRemoval = "kyma-pull.dev/removal"
	// AnnotationRestoring is specific to kyma-pull: "true" on a restored Manifest until its inventory is complete
	// again.
	AnnotationRestoring = "kyma-pull.dev/restoring"
	// AnnotationCarried is specific to kyma-pull: set on a Kyma in KCP if bundles and reports are carried by hand. Its
	// value is the time that this can take, such as 2160h; "true" means 90 days.
	AnnotationCarried = "kyma-pull.dev/carried"
	// AnnotationSecretName and AnnotationSecretNamespace are specific to kyma-pull: the name and namespace of a Secret
	// in the runtime. They default to its name in the control plane and to kyma-system.
	AnnotationSecretName      = "kyma-pull.dev/secret-name"
	AnnotationSecretNamespace = "kyma-pull.dev/secret-namespace"
	// AnnotationUnmanaged is "true" on a Manifest whose module is no longer managed: the agent removes the Manifest and
	// leaves the module's objects in place.
	AnnotationUnmanaged = Group + "/is-unmanaged"
	// AnnotationPublicFields is specific to kyma-pull: fields of a ModuleTemplate or ModuleReleaseMeta, separated by
	// commas, that look like a secret but are public, such as "spec.data.spec.example".
	AnnotationPublicFields = "kyma-pull.dev/public-fields"
	// AnnotationGitCommit and AnnotationGitDigest are specific to kyma-pull: the Git commit that last changed an object
	// of the control plane, and the sha256 of the object in that commit. They never leave the control plane.
	AnnotationGitCommit = "kyma-pull.dev/git-commit"
	AnnotationGitDigest = "kyma-pull.dev/git-digest"
	// LabelShard is specific to kyma-pull: the publisher shard of a Kyma, such as 3-of-6. The publisher sets it and
	// reverts changes.
	LabelShard = "kyma-pull.dev/shard"
	// AnnotationPrune is specific to kyma-pull: PruneDisabled protects an object of the control plane from deletion by
	// a commit that omits it.
	AnnotationPrune = "kyma-pull.dev/prune"
	PruneDisabled   = "disabled"
	// AnnotationAllowPrune is specific to kyma-pull: on the ConfigMap kyma-pull-git, the commit that is allowed to
	// delete all objects that it omits.
	AnnotationAllowPrune = "kyma-pull.dev/allow-prune"
	// AnnotationApprovedRemovals is on a Kyma in KCP, and lists the held removals that an operator approved, as
	// MODULE@TIME of status.runtime.removals separated by commas. MODULE is empty for all modules of a deleted Kyma.
	AnnotationApprovedRemovals = "kyma-pull.dev/approved-removals"
	// AnnotationMaintenanceWindows is specific to kyma-pull: the maintenance windows of one runtime, on its Kyma in
	// KCP, in JSON. They replace those of the policy. Their times have a fixed offset from UTC without daylight saving
	// time: 02:00:00+02:00 is 01:00 in Berlin in winter.
	AnnotationMaintenanceWindows = "kyma-pull.dev/maintenance-windows"
	// AnnotationEarlyUpgrades is specific to kyma-pull: "true" on a Kyma in KCP allows the runtime's admin to upgrade
	// before the next maintenance window, with spec.skipMaintenanceWindows or AnnotationUpgradeAt of the runtime's
	// Kyma.
	AnnotationEarlyUpgrades = "kyma-pull.dev/early-upgrades"
	// AnnotationUpgradeAt is specific to kyma-pull: on a runtime's Kyma, the time, such as 2026-11-21T21:00:00Z, from
	// which upgrades do not wait for the next maintenance window. The choice ends when that window begins.
	AnnotationUpgradeAt = "kyma-pull.dev/upgrade-at"
	// AnnotationHoldPromotion is specific to kyma-pull: on a ModuleTemplate, the reason why PromotionPolicies do not
	// promote its version. It never leaves the control plane.
	AnnotationHoldPromotion = "kyma-pull.dev/hold-promotion"
	// AnnotationTarget is set on a ModuleTemplate to its target cluster: spec.target of v1beta1.
	AnnotationTarget = Group + "/target"
	// AnnotationSyncCatalog is "false" on a Kyma whose runtime must not see the catalog. AnnotationNoModuleCopy is
	// "true" on a Kyma whose modules must not be copied into the new runtime. They are spec.sync.moduleCatalog and
	// spec.sync.noModuleCopy of v1beta1.
	AnnotationSyncCatalog  = Group + "/sync-module-catalog"
	AnnotationNoModuleCopy = Group + "/sync-no-module-copy"

	// LabelRuntimeID is set on a Kyma in KCP to the id of its runtime. It defaults to the Kyma's name.
	LabelRuntimeID = "kyma-project.io/runtime-id"
	// LabelInstanceID is set on a Kyma in KCP to the id of its service instance. It is copied to the runtime's Kyma if
	// --kyma-labels lists it.
	LabelInstanceID = "kyma-project.io/instance-id"
	// LabelGlobalAccountID is set on a Kyma in KCP to the global account of its runtime. Rules for maintenance windows
	// can match it. It is copied to the runtime's Kyma if --kyma-labels lists it.
	LabelGlobalAccountID = "kyma-project.io/global-account-id"
	// LabelSubaccountID is set on a Kyma in KCP to the subaccount of its runtime. It is copied to the runtime's Kyma if
	// --kyma-labels lists it.
	LabelSubaccountID = "kyma-project.io/subaccount-id"
	// LabelRegion is set on a Kyma in KCP to the region of its runtime's cluster. Rules for maintenance windows can
	// match it.
	LabelRegion = "kyma-project.io/region"
	// LabelPlatformRegion is set on a Kyma in KCP to the region of its account's platform. Rules for maintenance
	// windows can match it.
	LabelPlatformRegion = "kyma-project.io/platform-region"
	// LabelPlan is set on a Kyma in KCP to the service plan of its runtime. Rules for maintenance windows can match it.
	LabelPlan = "kyma-project.io/broker-plan-name"

	// True is the value that enables a label or annotation.
	True = "true"
	// RecreateWithData is the value of AnnotationRecreate for an object whose data can be lost.
	RecreateWithData = "with-data"
	// False is the value that disables a default.
	False = "false"
	// ManagedByKyma is the value of LabelManagedBy on objects that Kyma manages.
	ManagedByKyma = "kyma"
	// TargetControlPlane is the value of AnnotationTarget for modules that only the control plane's own cluster gets.
	TargetControlPlane = "control-plane"
)

// The name and namespace of the Kyma in a runtime.
const (
	RuntimeNamespace = "kyma-system"
	RuntimeKymaName  = "default"
)

// Finalizers.
const (
	// FinalizerKyma keeps a deleted Kyma in KCP until its runtime is empty or the publisher stops waiting for it.
	FinalizerKyma = Group + "/Kyma"
	// FinalizerManifest keeps a deleted Manifest in a runtime until its module's objects are removed.
	FinalizerManifest = "declarative.kyma-project.io/finalizer"
)

// Condition types. Modules, ModuleCatalog and SKRWebhook exist in upstream Kyma on a Kyma, Resources and Installation
// on a Manifest.
const (
	// ConditionReady reports whether the state is Ready. A Kyma is ready if all requested modules are installed and
	// work, a Manifest if its module works, a Watcher if runtimes are asked to watch. The message names the problem.
	ConditionReady = "Ready"
	// ConditionModules on a Kyma in KCP or a runtime reports whether all managed modules are Ready. The message names
	// one that is not.
	ConditionModules = "Modules"
	// ConditionModuleCatalog on a Kyma in KCP or a runtime reports whether the runtime has the catalog of the latest
	// bundle that this side knows.
	ConditionModuleCatalog = "ModuleCatalog"
	// ConditionSKRWebhook on a Kyma in KCP or a runtime reports whether the runtime watches the resources of the
	// Watchers. It is absent without Watchers.
	ConditionSKRWebhook = "SKRWebhook"
	// ConditionResources on a Manifest reports whether its content could be read and rendered to allowed objects.
	ConditionResources = "Resources"
	// ConditionInstallation on a Manifest reports whether its objects are applied. Condition Ready reports whether they
	// work.
	ConditionInstallation = "Installation"
	// ConditionImages on a Manifest reports whether its component lists the images of its objects.
	ConditionImages = "Images"
	// ConditionRights on a Manifest is Unknown if the rights of the module's ServiceAccount could not be reviewed, and
	// True after the next review. It is absent until a review fails.
	ConditionRights = "Rights"
	// ConditionReporting on a Kyma in KCP reports whether a report was received within the allowed silence.
	ConditionReporting = "Reporting"
	// ConditionRegistry is False on a Kyma in KCP while the registry does not hold the published bundle, and on the
	// Kyma of a runtime while its agent cannot read bundles from the registry. It is absent until that first happens.
	ConditionRegistry = "Registry"
	// ConditionAgent is False on a Kyma whose agent does not run the image that its bundle names. It is absent until
	// that first happens.
	ConditionAgent = "Agent"
	// ConditionFeatures is False on a Kyma in KCP while its agent does not support all content of its bundle. It is
	// absent until that first happens.
	ConditionFeatures = "Features"
	// ConditionSynced is False on a Kyma in KCP or a runtime while the agent cannot write the applied bundle's objects,
	// or cannot store a newer bundle. It is absent until that first happens.
	ConditionSynced = "Synced"
	// ConditionAccepted on a Kyma in a runtime reports whether the latest bundle was accepted, with the reason if not.
	ConditionAccepted = "Accepted"
	// ConditionSecrets on a Kyma in KCP or a runtime reports whether the runtime has its sealed Secrets. It is absent
	// without Secrets.
	ConditionSecrets = "Secrets"
	// ConditionRemovals is False on a Kyma in KCP while the removal of modules from its runtime waits for an operator's
	// approval; it is there only after that.
	ConditionRemovals = "Removals"
	// ConditionPublishing is False on a Kyma in KCP while bundles are only renewed because a Git commit is applied in
	// part; it is there only after that.
	ConditionPublishing = "Publishing"
	// ConditionEnrolled is specific to kyma-pull: it reports whether the control plane can authenticate the agent's
	// reports. Only the runtime's own Kyma has it, and only after it was False once.
	ConditionEnrolled = "Enrolled"
)

// State is the summary of an object's status.
// +kubebuilder:validation:Enum=Processing;Deleting;Ready;Error;"";Warning;Unmanaged
type State string

// States of modules and Kymas.
const (
	// StateReady: everything requested is installed and works.
	StateReady State = "Ready"
	// StateProcessing: a module is being installed, upgraded or removed, or the runtime has not reported it yet.
	StateProcessing State = "Processing"
	// StateError: a module cannot be installed or does not work, or no bundle can be published.
	StateError State = "Error"
	// StateWarning: the installed modules work, but an operator must act. The message names the problem.
	StateWarning State = "Warning"
	// StateDeleting: the Kyma is deleted and its modules are being removed, or one module is being removed.
	StateDeleting State = "Deleting"
	// StateUnmanaged: a module is left as it is because its spec.modules[].managed is false. The state of the Kyma
	// ignores it.
	StateUnmanaged State = "Unmanaged"
)

// CustomResourcePolicy defines whether the agent creates and deletes a module's default CR.
// +kubebuilder:validation:Enum=CreateAndDelete;Ignore
type CustomResourcePolicy string

// CreateAndDelete creates the default CR with the module and deletes it with the module. Ignore never changes it.
const (
	PolicyCreateAndDelete CustomResourcePolicy = "CreateAndDelete"
	PolicyIgnore          CustomResourcePolicy = "Ignore"
)
