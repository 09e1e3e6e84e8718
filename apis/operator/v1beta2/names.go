package v1beta2

// Labels and annotations on Kyma objects.
const (
	// LabelModuleName is the name of a module. Manifests and module objects have this label. A ModuleTemplate has it if
	// its spec does not name the module. A Secret in the control plane has it if a module in a runtime needs the
	// Secret.
	LabelModuleName = Group + "/module-name"
	// LabelKymaName is set on a Manifest to the name of its Kyma. In a runtime it is always "default".
	LabelKymaName = Group + "/kyma-name"
	// LabelChannel is set on a Manifest to the channel that its version was resolved from.
	LabelChannel = Group + "/channel"
	// LabelManagedBy is "kyma" on objects that the agent reconciles with its bundle: the runtime's Kyma, Manifests, the
	// catalog, module objects and the namespace kyma-system.
	LabelManagedBy = Group + "/managed-by"
	// LabelWatchedBy is "kyma" on the Kyma in a runtime. Other Kyma programs expect it; kyma-pull does not read it.
	LabelWatchedBy = Group + "/watched-by"
	// LabelPurpose is the purpose of a Kyma's runtime. It is copied to the Kyma in the runtime.
	LabelPurpose = Group + "/purpose"
	// LabelControllerName is set on a ModuleTemplate to the name that a Kyma's spec.modules[].controller selects. The
	// module's Manifest has the same label.
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
	// LabelSync is "false" on a Kyma whose runtime has no catalog and cannot request modules. It is also "false" on a
	// ModuleTemplate that must not reach any runtime.
	LabelSync = Group + "/sync"
	// LabelSignature is set on a Secret with public keys. Its value is the name of the component signatures that the
	// publisher verifies with these keys.
	LabelSignature = Group + "/signature"
	// LabelForceDeletion is "true" on a Kyma to force its deletion. Deleting a Kyma with this label does not wait for
	// its runtime.
	LabelForceDeletion = "kyma-pull.dev/force-deletion"
	// LabelRuntimeGone is "true" on a Kyma in KCP whose runtime's cluster no longer exists. The deletion of the Kyma
	// completes immediately, even while the registry is unavailable.
	LabelRuntimeGone = "kyma-pull.dev/runtime-gone"
	// LabelControlPlane is "true" on the Kyma in KCP whose runtime is the control plane's own cluster. Only this
	// runtime gets the modules whose target is the control plane.
	LabelControlPlane = "kyma-pull.dev/control-plane"
	// LabelSecretFor identifies the runtime to which a Secret is delivered. Kyma's own label for runtimes cannot be
	// used, because it is also set on Secrets that must stay in the control plane.
	LabelSecretFor = "kyma-pull.dev/secret-for"
	// LabelSealed is "true" on Secrets in a runtime that a bundle delivered in encrypted form.
	LabelSealed = "kyma-pull.dev/sealed"

	// AnnotationFQDN is set on a Manifest to the name of its module's OCM component.
	AnnotationFQDN = Group + "/fqdn"
	// AnnotationOwnedBy is set on a module object to its Manifest, as NAMESPACE/NAME.
	AnnotationOwnedBy = Group + "/owned-by"
	// AnnotationClusterScoped marks a ModuleTemplate whose default CR has no namespace. It has no effect, because the
	// agent reads the scope from the API server.
	AnnotationClusterScoped = Group + "/is-cluster-scoped"
	// AnnotationCustomStateCheck is set on a Manifest to its ModuleTemplate's spec.customStateCheck, in JSON.
	AnnotationCustomStateCheck = Group + "/custom-state-check"
	// AnnotationAdopt on an object in a runtime contains a Manifest, as NAMESPACE/NAME. The agent can then manage the
	// object as part of this Manifest's module, even if the agent did not create the object.
	AnnotationAdopt = "kyma-pull.dev/adopt"
	// AnnotationModule on a Manifest is the name of the module as the Kyma requests it. It is set if the name is not
	// valid as a label, because it contains a slash.
	AnnotationModule = "kyma-pull.dev/module"
	// AnnotationRevokedKeys lists the thumbprints of revoked agent keys, separated by spaces. Reports that are signed
	// with these keys are refused.
	AnnotationRevokedKeys = "kyma-pull.dev/revoked-keys"
	// AnnotationHandOver is the proof that an operator assigned the runtime to exactly this Kyma. `kcp-publisher move`
	// writes it. The proof requires the fleet's token secret, so write access to the Kyma is not enough to create it.
	AnnotationHandOver = "kyma-pull.dev/hand-over"
	// AnnotationMovedAway is "true" on a Kyma whose runtime moves to another control plane. `kcp-publisher move --away`
	// sets it. The publisher then does not publish bundles for the Kyma, and deleting the Kyma does not remove objects
	// from the runtime.
	AnnotationMovedAway = "kyma-pull.dev/moved-away"
	// AnnotationPermissionProbe is an annotation that the admission policy in the publisher's chart refuses on a Kyma
	// for every user. The publisher sets the annotation in a dry run to check whether the API server enforces the
	// policy.
	AnnotationPermissionProbe = "kyma-pull.dev/permission-probe"
	// AnnotationReconcileRequested is defined by Flux: a new value on a Kyma in KCP makes the publisher reconcile the
	// Kyma immediately, including the runtime's report and the bundle in the registry. Afterwards,
	// status.lastHandledReconcileAt contains the value.
	AnnotationReconcileRequested = "reconcile.fluxcd.io/requestedAt"
	// AnnotationSuspendReason is the reason why an operator suspended a Kyma with LabelSkipReconciliation.
	AnnotationSuspendReason = "kyma-pull.dev/suspend-reason"
	// AnnotationRootOfTrust on the publisher's Lease contains the current root of trust's fleet, epoch, version and
	// expiry, in JSON. It is only informational: kyma-pull makes no decision based on it.
	AnnotationRootOfTrust = "kyma-pull.dev/root-of-trust"
	// AnnotationAutonomy is "Catalog" on a Kyma whose runtime can install modules from the offers in its last bundle
	// without the control plane.
	AnnotationAutonomy = "kyma-pull.dev/autonomy"
	// AnnotationAgentImage is the image, by digest, that the agent in a Kyma's runtime must run. If empty, the agent
	// keeps its current image.
	AnnotationAgentImage = "kyma-pull.dev/agent-image"
	// AnnotationAgentRollbackFrom contains agent image digests, separated by commas. If the agent in a Kyma's runtime
	// runs one of these images, it can be rolled back to an older image. An agent otherwise refuses older images.
	AnnotationAgentRollbackFrom = "kyma-pull.dev/agent-rollback-from"
	// AnnotationImages on a Manifest contains the rules that the agent uses to rewrite the module's images, such as
	// mirrors and the image pull Secret, in JSON.
	AnnotationImages = "kyma-pull.dev/images"
	// AnnotationRecord on a Manifest in a runtime records the agent's own work on the module, in JSON: the applied
	// version, recreated objects, completed Jobs, inherited objects, and removal or restore progress. It contains a
	// signature by the agent's key. An agent with a different key never deletes objects because of this record.
	AnnotationRecord = "kyma-pull.dev/record"
	// AnnotationRecreate allows agents to delete and recreate an object if the API server refuses a change of an
	// immutable field. It is "true" on an object in a module's content, or on a ModuleTemplate for all of its version's
	// objects. An object whose kind stores data requires the value RecreateWithData on the object itself.
	AnnotationRecreate = "kyma-pull.dev/recreate"
	// AnnotationIgnoreFields on a module's object contains the fields that the agent no longer manages once the object
	// exists. Its value is JSON pointers (RFC 6901) in a JSON array or separated by commas.
	AnnotationIgnoreFields = "kyma-pull.dev/ignore-fields"
	// AnnotationMovesTo on an object in a module's content contains the name of the module that takes the object over.
	// The module owns the object until the other module's version in the runtime also contains it.
	AnnotationMovesTo = "kyma-pull.dev/moves-to"
	// AnnotationMovesFrom on an object in a module's content contains the name of the module that owned the object
	// before. The module owns the object once the other module's version in the runtime omits it or releases it with
	// the annotation moves-to.
	AnnotationMovesFrom = "kyma-pull.dev/moves-from"
	// AnnotationDeleteWithData is "true" on a PersistentVolumeClaim, PersistentVolume or Namespace that an upgrade can
	// delete together with its data. Without this annotation, the agent keeps such an object when a new version omits
	// it. When the module is removed, the agent deletes claims and volumes even without the annotation, and a Namespace
	// with other owners' objects only with the annotation.
	AnnotationDeleteWithData = "kyma-pull.dev/delete-with-data"
	// AnnotationRequiresFeatures on a ModuleTemplate contains the agent features that its version requires, separated
	// by commas. Bundles copy it to the Manifest.
	AnnotationRequiresFeatures = "kyma-pull.dev/requires-features"
	// AnnotationValues on a Kyma in KCP contains named values for its runtime, as a JSON object with string values. On
	// a Manifest, the agent sets it to the values that the module uses, with null for undefined values.
	AnnotationValues = "kyma-pull.dev/values"
	// AnnotationReportDetails on a Kyma in KCP contains the details that its runtime adds to reports, separated by
	// commas. Possible details are events, failing containers' logs, and module objects.
	AnnotationReportDetails = "kyma-pull.dev/report-details"
	// AnnotationCheckRun on a Kyma in KCP contains a request to run checks once in its runtime, as JSON with the fields
	// id, module and checks. `kcp-publisher rollout check` writes it. The runtime's report contains the result.
	AnnotationCheckRun = "kyma-pull.dev/check-run"
	// AnnotationUsesValues on a ModuleTemplate contains the names of the values that its default CR and chart values
	// refer to, separated by commas, such as region or replicas:int. Bundles copy it to the Manifest.
	AnnotationUsesValues = "kyma-pull.dev/uses-values"
	// AnnotationCarried is set on a Kyma in KCP if operators carry its bundles and reports, for example on a USB drive.
	// Its value is the allowed time without a report, such as 2160h; "true" means 90 days.
	AnnotationCarried = "kyma-pull.dev/carried"
	// AnnotationSecretName and AnnotationSecretNamespace are the name and namespace of a Secret in the runtime. The
	// default name is the Secret's name in the control plane. The default namespace is kyma-system.
	AnnotationSecretName      = "kyma-pull.dev/secret-name"
	AnnotationSecretNamespace = "kyma-pull.dev/secret-namespace"
	// AnnotationUnmanaged is "true" on a Manifest whose module became unmanaged: the agent removes the Manifest and
	// leaves the module's objects in place.
	AnnotationUnmanaged = Group + "/is-unmanaged"
	// AnnotationPublicFields lists fields of a ModuleTemplate or ModuleReleaseMeta, separated by commas, that look like
	// a secret but are public, such as "spec.data.spec.example".
	AnnotationPublicFields = "kyma-pull.dev/public-fields"
	// AnnotationGitCommit and AnnotationGitDigest are the Git commit that last changed a control plane object, and the
	// object's SHA-256 digest in that commit. Bundles do not contain these annotations.
	AnnotationGitCommit = "kyma-pull.dev/git-commit"
	AnnotationGitDigest = "kyma-pull.dev/git-digest"
	// LabelShard is the publisher shard of a Kyma, such as 3-of-6. The publisher sets it and reverts changes by other
	// clients.
	LabelShard = "kyma-pull.dev/shard"
	// AnnotationPrune with the value PruneDisabled protects an object in the control plane from deletion when a Git
	// commit omits the object.
	AnnotationPrune = "kyma-pull.dev/prune"
	PruneDisabled   = "disabled"
	// AnnotationAllowPrune on the ConfigMap kyma-pull-git contains the commit that is allowed to delete all objects
	// that it omits.
	AnnotationAllowPrune = "kyma-pull.dev/allow-prune"
	// AnnotationApprovedRemovals on a Kyma in KCP lists the module removals that an operator approved, separated by
	// commas. Each item has the format MODULE@TIME. MODULE and TIME are the fields of an entry in
	// status.runtime.removals with the decision Held. MODULE is empty if the Kyma is deleted, which removes all
	// modules.
	AnnotationApprovedRemovals = "kyma-pull.dev/approved-removals"
	// AnnotationMaintenanceWindows on a Kyma in KCP contains its runtime's maintenance windows, in JSON. They replace
	// the windows from the publisher's maintenance policy. Times have a fixed offset from UTC and ignore daylight
	// saving time: 02:00:00+02:00 is 01:00 in Berlin in winter.
	AnnotationMaintenanceWindows = "kyma-pull.dev/maintenance-windows"
	// AnnotationEarlyUpgrades is "true" on a Kyma in KCP whose runtime's admin can upgrade before the next maintenance
	// window. The admin then sets spec.skipMaintenanceWindows or AnnotationUpgradeAt on the runtime's Kyma.
	AnnotationEarlyUpgrades = "kyma-pull.dev/early-upgrades"
	// AnnotationUpgradeAt on a runtime's Kyma contains the time from which upgrades no longer wait for the next
	// maintenance window, such as 2026-11-21T21:00:00Z. It has no effect after that window has begun.
	AnnotationUpgradeAt = "kyma-pull.dev/upgrade-at"
	// AnnotationHoldPromotion on a ModuleTemplate contains the reason why PromotionPolicies must not promote its
	// version. Bundles do not contain it.
	AnnotationHoldPromotion = "kyma-pull.dev/hold-promotion"
	// LabelHoldPromotion on a ModuleTemplate has the same effect as the annotation of the same name. The label's value
	// does not matter. Bundles do not contain the label.
	LabelHoldPromotion = "kyma-pull.dev/hold-promotion"
	// AnnotationMissingChannel with the value MissingChannelRemove on a ModuleReleaseMeta removes the module from runtimes
	// that request it in a channel that spec.channels does not contain. Without the annotation, these runtimes keep the
	// module.
	AnnotationMissingChannel = "kyma-pull.dev/missing-channel"
	MissingChannelRemove     = "remove"
	// AnnotationTarget is set on a ModuleTemplate to the cluster in which the module is installed. In v1beta1,
	// spec.target contains its value.
	AnnotationTarget = Group + "/target"
	// AnnotationSyncCatalog is "false" on a Kyma whose runtime must not see the catalog. AnnotationNoModuleCopy is
	// "true" on a Kyma whose modules must not be copied into a new runtime. In v1beta1, the fields
	// spec.sync.moduleCatalog and spec.sync.noModuleCopy contain these values.
	AnnotationSyncCatalog  = Group + "/sync-module-catalog"
	AnnotationNoModuleCopy = Group + "/sync-no-module-copy"

	// LabelRuntimeID is set on a Kyma in KCP to the ID of its runtime. It defaults to the Kyma's name.
	LabelRuntimeID = "kyma-project.io/runtime-id"
	// LabelInstanceID is set on a Kyma in KCP to the ID of its service instance. It is copied to the runtime's Kyma if
	// the publisher's flag --kyma-labels lists it.
	LabelInstanceID = "kyma-project.io/instance-id"
	// LabelGlobalAccountID is set on a Kyma in KCP to the global account of its runtime. Rules for maintenance windows
	// can match it. It is copied to the runtime's Kyma if the publisher's flag --kyma-labels lists it.
	LabelGlobalAccountID = "kyma-project.io/global-account-id"
	// LabelSubaccountID is set on a Kyma in KCP to the subaccount of its runtime. It is copied to the runtime's Kyma if
	// the publisher's flag --kyma-labels lists it.
	LabelSubaccountID = "kyma-project.io/subaccount-id"
	// LabelRegion is set on a Kyma in KCP to the region of its runtime's cluster. Rules for maintenance windows can
	// match it.
	LabelRegion = "kyma-project.io/region"
	// LabelPlatformRegion is set on a Kyma in KCP to the region of its account's platform. Rules for maintenance
	// windows can match it.
	LabelPlatformRegion = "kyma-project.io/platform-region"
	// LabelPlan is set on a Kyma in KCP to the service plan of its runtime. Rules for maintenance windows can match it.
	LabelPlan = "kyma-project.io/broker-plan-name"

	// True is the value of labels and annotations that enable a feature.
	True = "true"
	// RecreateWithData is the value of AnnotationRecreate for an object that stores data. Recreating the object deletes
	// this data.
	RecreateWithData = "with-data"
	// False is the value of labels and annotations that disable a default.
	False = "false"
	// ManagedByKyma is the value of LabelManagedBy on objects that Kyma manages.
	ManagedByKyma = "kyma"
	// TargetControlPlane is the value of AnnotationTarget for modules that only the control plane's own cluster gets.
	TargetControlPlane = "control-plane"
)

// The name and namespace of the only Kyma in a runtime.
const (
	RuntimeNamespace = "kyma-system"
	RuntimeKymaName  = "default"
)

// Finalizers on Kymas and Manifests.
const (
	// FinalizerKyma keeps a deleted Kyma in KCP until its runtime is empty or the publisher stops waiting for it.
	FinalizerKyma = Group + "/Kyma"
	// FinalizerManifest keeps a deleted Manifest in a runtime until its module's objects are removed.
	FinalizerManifest = "declarative.kyma-project.io/finalizer"
)

// Condition types. Upstream Kyma also sets Modules, ModuleCatalog and SKRWebhook on Kymas, and Resources and
// Installation on Manifests.
const (
	// ConditionReady reports whether the state is Ready. A Kyma is ready if all requested modules are installed and
	// work. A Manifest is ready if its module works, and a Watcher if runtimes' bundles contain it. The message
	// contains the problem.
	ConditionReady = "Ready"
	// ConditionModules on a Kyma in KCP or a runtime reports whether all managed modules are Ready. The message names
	// one module that is not Ready.
	ConditionModules = "Modules"
	// ConditionModuleCatalog on a Kyma in KCP reports whether the runtime has the catalog from the latest published
	// bundle. On a Kyma in a runtime, it refers to the latest bundle that the agent has read.
	ConditionModuleCatalog = "ModuleCatalog"
	// ConditionSKRWebhook on a Kyma in KCP or a runtime reports whether the runtime watches all Watchers' resources. It
	// is absent if no Watcher exists.
	ConditionSKRWebhook = "SKRWebhook"
	// ConditionResources on a Manifest reports whether the module's content could be read and rendered, and contains
	// only allowed objects.
	ConditionResources = "Resources"
	// ConditionInstallation on a Manifest reports whether the module's objects are applied. Condition Ready reports
	// whether the module works.
	ConditionInstallation = "Installation"
	// ConditionImages on a Manifest reports whether the module's component descriptor lists the images that the
	// module's objects use.
	ConditionImages = "Images"
	// ConditionRights on a Manifest is Unknown if the permissions of the module's ServiceAccount could not be reviewed,
	// and True after the next successful review. It is absent until a review first fails.
	ConditionRights = "Rights"
	// ConditionFields on a Manifest is False if the module's objects have fields that their kinds do not have, such as
	// misspelled fields. The agent ignores these fields. It is absent until it first becomes False.
	ConditionFields = "Fields"
	// ConditionReporting on a Kyma in KCP reports whether a report was received within the allowed silence.
	ConditionReporting = "Reporting"
	// ConditionRegistry is False on a Kyma in KCP while the registry does not contain the published bundle, and on a
	// runtime's Kyma while its agent cannot read bundles from the registry. It is absent until it first becomes False.
	ConditionRegistry = "Registry"
	// ConditionAgent is False on a Kyma whose agent does not run the image that its bundle names. It is absent until it
	// is first False.
	ConditionAgent = "Agent"
	// ConditionFeatures is False on a Kyma in KCP while the runtime's agent does not support all content of its bundle.
	// It is absent until it first becomes False.
	ConditionFeatures = "Features"
	// ConditionSynced is False on a Kyma in KCP or a runtime while the agent cannot write the applied bundle's objects,
	// or cannot store a newer bundle. It is absent until it first becomes False.
	ConditionSynced = "Synced"
	// ConditionAccepted on a Kyma in a runtime reports whether the agent accepted the latest bundle. The reason
	// explains a refusal.
	ConditionAccepted = "Accepted"
	// ConditionSecrets on a Kyma in KCP or a runtime reports whether the runtime has its sealed Secrets. It is absent
	// if the runtime has no sealed Secrets.
	ConditionSecrets = "Secrets"
	// ConditionRemovals is False on a Kyma in KCP while removing modules from its runtime waits for an operator's
	// approval. It is absent until it first becomes False.
	ConditionRemovals = "Removals"
	// ConditionPublishing is False on a Kyma in KCP while a Git commit is partially applied. The publisher then extends
	// the validity of the Kyma's bundle but does not change its content. The condition is absent until it is first
	// False.
	ConditionPublishing = "Publishing"
	// ConditionEnrolled on a Kyma in a runtime reports whether the control plane can authenticate the agent's reports.
	// It is absent until it first becomes False.
	ConditionEnrolled = "Enrolled"
)

// State is the summary of an object's status.
// +kubebuilder:validation:Enum=Processing;Deleting;Ready;Error;"";Warning;Unmanaged
type State string

// States of modules and Kymas.
const (
	// StateReady means that everything requested is installed and works.
	StateReady State = "Ready"
	// StateProcessing means that a module is being installed, upgraded or removed, or the runtime has not reported it
	// yet.
	StateProcessing State = "Processing"
	// StateError means that a module cannot be installed or does not work, or no bundle can be published.
	StateError State = "Error"
	// StateWarning means that the installed modules work, but an operator must act. The message describes the problem.
	StateWarning State = "Warning"
	// StateDeleting means that the Kyma is deleted and its modules are being removed, or one module is being removed.
	StateDeleting State = "Deleting"
	// StateUnmanaged means that a module is not managed because its spec.modules[].managed is false. It does not affect
	// the state of the Kyma.
	StateUnmanaged State = "Unmanaged"
)

// CustomResourcePolicy defines whether the agent creates and deletes a module's default CR.
// +kubebuilder:validation:Enum=CreateAndDelete;Ignore
type CustomResourcePolicy string

// With CreateAndDelete, the agent creates the default CR when it installs the module and deletes it when it removes the
// module. With Ignore, the agent never changes the default CR.
const (
	PolicyCreateAndDelete CustomResourcePolicy = "CreateAndDelete"
	PolicyIgnore          CustomResourcePolicy = "Ignore"
)
