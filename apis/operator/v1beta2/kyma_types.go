package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kyma defines the modules that a runtime must have.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=ky,categories=kyma-pull
// +kubebuilder:selectablefield:JSONPath=".status.state"
// +kubebuilder:selectablefield:JSONPath=".status.activeChannel"
// +kubebuilder:selectablefield:JSONPath=".status.runtime.id"
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=".status.state"
// +kubebuilder:printcolumn:name="Channel",type=string,JSONPath=".status.activeChannel"
// +kubebuilder:printcolumn:name="Modules",type=string,JSONPath=".status.readyModules"
// +kubebuilder:printcolumn:name="In Force",type=string,JSONPath=".status.runtime.observed.sequence"
// +kubebuilder:printcolumn:name="Reporting",type=string,JSONPath=`.status.conditions[?(@.type=="Reporting")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Published",type=string,JSONPath=".status.runtime.published.sequence",priority=1
// +kubebuilder:printcolumn:name="Report Noted",type=date,JSONPath=".status.runtime.observed.heard",priority=1
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=".status.runtime.observed.agentVersion",priority=1
// +kubebuilder:printcolumn:name="Kubernetes",type=string,JSONPath=".status.runtime.observed.kubernetesVersion",priority=1
// +kubebuilder:printcolumn:name="Runtime",type=string,JSONPath=".status.runtime.id",priority=1
// +kubebuilder:printcolumn:name="Healthy Until",type=string,JSONPath=".status.runtime.healthyUntil",priority=1
// +kubebuilder:printcolumn:name="Skip Reconciliation",type=string,JSONPath=`.metadata.labels.operator\.kyma-project\.io/skip-reconciliation`,priority=1
// +kubebuilder:printcolumn:name="Deleted",type=date,JSONPath=".metadata.deletionTimestamp",priority=1
// +kubebuilder:printcolumn:name="Running",type=string,JSONPath=".status.runtime.running",priority=1
// +kubebuilder:printcolumn:name="Report Time",type=string,JSONPath=".status.runtime.observed.time",priority=1
type Kyma struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   KymaSpec   `json:"spec,omitempty"`
	Status KymaStatus `json:"status,omitempty"`
}

// KymaList is a list of Kymas.
//
// +kubebuilder:object:root=true
type KymaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Kyma `json:"items"`
}

// KymaSpec is the configuration that the runtime's owner requests.
type KymaSpec struct {
	// Channel is the release channel for every module that does not set its own channel.
	// +kubebuilder:validation:Pattern:=^[a-z]+$
	// +kubebuilder:validation:MaxLength:=32
	// +kubebuilder:validation:MinLength:=3
	Channel string `json:"channel"`
	// SkipMaintenanceWindows allows upgrades with downtime outside maintenance windows.
	// +optional
	SkipMaintenanceWindows bool `json:"skipMaintenanceWindows,omitempty"`
	// Modules lists the requested modules.
	// +optional
	// +listType=map
	// +listMapKey=name
	Modules []Module `json:"modules,omitempty"`
}

// Module requests one module.
type Module struct {
	// Name is the name of the module's ModuleReleaseMeta. A ModuleTemplate can also be selected by its name,
	// namespace/name or component name.
	Name string `json:"name"`
	// Channel overrides the Kyma's channel.
	// +optional
	// +kubebuilder:validation:Pattern:=^[a-z]+$
	// +kubebuilder:validation:MaxLength:=32
	// +kubebuilder:validation:MinLength:=3
	Channel string `json:"channel,omitempty"`
	// Version is the pinned version in status.runtime.requested.spec. It has no effect in spec. To pin a module, use
	// the annotation kyma-pull.dev/pinned-versions.
	// +optional
	// +kubebuilder:validation:Pattern:=`^((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[a-zA-Z-][0-9a-zA-Z-]*)?)?$`
	// +kubebuilder:validation:MaxLength:=32
	Version string `json:"version,omitempty"`
	// ControllerName selects only ModuleTemplates whose label operator.kyma-project.io/controller-name has this value.
	// If empty, the label is ignored.
	// +optional
	ControllerName string `json:"controller,omitempty"`
	// RemoteModuleTemplateRef references a ModuleTemplate in the runtime. The field has no effect.
	// +optional
	RemoteModuleTemplateRef string `json:"remoteModuleTemplateRef,omitempty"`
	// CustomResourcePolicy defines whether the agent creates and deletes the default CR.
	// +kubebuilder:default:=CreateAndDelete
	CustomResourcePolicy CustomResourcePolicy `json:"customResourcePolicy,omitempty"`
	// Managed is false if the agent must stop managing the module. The module's objects then stay in the runtime.
	// +kubebuilder:default:=true
	Managed bool `json:"managed"`
}

// KymaStatus is the observed state of a runtime.
type KymaStatus struct {
	// ActiveChannel is the value of spec.channel when the modules were last resolved.
	// +optional
	ActiveChannel string `json:"activeChannel,omitempty"`
	// State summarizes the states of the modules and the conditions.
	// +optional
	State State `json:"state,omitempty"`
	// ObservedGeneration is the spec generation that the status refers to. In a runtime, it is the generation that the
	// applied bundle was resolved from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ReadyModules is the number of Ready modules and the number of managed modules, such as "3/4".
	// +optional
	ReadyModules string `json:"readyModules,omitempty"`
	// Conditions explain the state.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Modules lists the modules with their states.
	// +optional
	Modules []ModuleStatus `json:"modules,omitempty"`
	// LastOperation describes the last change of state.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// LastHandledReconcileAt is the value of the annotation reconcile.fluxcd.io/requestedAt that was last handled.
	// +optional
	// +kubebuilder:validation:MaxLength:=64
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
	// Runtime is the latest state of the bundle and report exchange between the control plane and the runtime. It is an
	// atomic field: one field manager owns it, and managedFields does not list its subfields.
	// +optional
	// +structType=atomic
	Runtime *RuntimeStatus `json:"runtime,omitempty"`
}

// LastOperation describes the last change of state in readable form.
type LastOperation struct {
	Operation string `json:"operation"`
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`
}

// ModuleStatus is the observed state of one module.
type ModuleStatus struct {
	Name string `json:"name"`
	// FQDN is the name of the module's OCM component.
	// +optional
	FQDN string `json:"fqdn,omitempty"`
	// OcmComponentName is the name of the module's OCM component, equal to fqdn.
	// +optional
	OcmComponentName string `json:"ocmComponentName,omitempty"`
	// +optional
	Channel string `json:"channel,omitempty"`
	// +optional
	Version string `json:"version,omitempty"`
	// Message explains why the state is not Ready.
	// +optional
	Message string `json:"message,omitempty"`
	State   State  `json:"state"`
	// Manifest, Resource and Template identify the module's Manifest, default CR and ModuleTemplate.
	// +optional
	Manifest *TrackingObject `json:"manifest,omitempty"`
	// +optional
	Resource *TrackingObject `json:"resource,omitempty"`
	// +optional
	Template *TrackingObject `json:"template,omitempty"`
	// Maintenance is true if an upgrade waits for a maintenance window.
	// +optional
	// +kubebuilder:default:=false
	Maintenance bool `json:"maintenance,omitempty"`
}

// TrackingObject identifies an object.
type TrackingObject struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	PartialMeta PartialMeta `json:"metadata,omitempty"`
}

// PartialMeta is the part of an object's metadata that identifies it.
type PartialMeta struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Generation int64 `json:"generation,omitempty"`
}

// RuntimeStatus is the latest state of the bundle and report exchange between the control plane and the runtime.
type RuntimeStatus struct {
	// ID is the ID of the runtime that this status refers to.
	// +optional
	ID string `json:"id,omitempty"`
	// Published is the latest bundle that the publisher pushed to the registry for the runtime.
	// +optional
	Published *PublishedBundle `json:"published,omitempty"`
	// History lists the latest bundles with their outcome, newest first, at most five. The publisher updates it only
	// together with other fields. Bundles from publisher versions without this field are missing.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems:=5
	History []BundleRecord `json:"history,omitempty"`
	// Requested is the spec of the runtime's own Kyma as last reported. The publisher resolves the modules in this
	// spec.
	// +optional
	Requested *RequestedSpec `json:"requested,omitempty"`
	// Observed is the bundle that the last report refers to, with the runtime's properties from that report.
	// +optional
	Observed *ObservedBundle `json:"observed,omitempty"`
	// Reasons explain conditions and module states with values from fixed lists, for programs. The messages contain the
	// same information for people.
	// +optional
	Reasons *RuntimeReasons `json:"reasons,omitempty"`
	// HealthyUntil is the time when the runtime stops counting as healthy unless this object changes. Unset if the
	// runtime is not healthy. A program that lists many Kymas can skip healthy runtimes' details. The publisher updates
	// this field only together with other fields.
	// +optional
	HealthyUntil *metav1.Time `json:"healthyUntil,omitempty"`
	// Running is the sequence of the latest bundle and the running modules with their versions, such as
	// 7:keda=1.7.0,mail=1.0.0=Unmanaged. A module state other than Ready follows the version. The publisher updates
	// this field together with HealthyUntil. It is unset if HealthyUntil is unset or the text exceeds 1 KiB.
	// +optional
	Running string `json:"running,omitempty"`
	// Key is the runtime's public key.
	// +optional
	Key *RuntimeKey `json:"key,omitempty"`
	// ReportSequence is the sequence of the latest recorded report that was signed with Key.
	// +optional
	ReportSequence int64 `json:"reportSequence,omitempty"`
	// Secrets lists the Secrets that were published to the runtime, as NAMESPACE/NAME, until the runtime has reported
	// their removal.
	// +optional
	Secrets []string `json:"secrets,omitempty"`
	// Takeover is the state of the runtime's takeover from lifecycle-manager. Unset after the takeover.
	// +optional
	Takeover *TakeoverStatus `json:"takeover,omitempty"`
	// Removals lists the decisions about modules that the control plane removes without a request from the runtime,
	// sorted by module. Allowed removals are dropped from the list after a day.
	// +optional
	// +listType=atomic
	Removals []ModuleRemoval `json:"removals,omitempty"`
	// Assignment is an operator's newest decision that the runtime belongs to this Kyma: an enrollment token that the
	// runtime's agent used, or a handover from another Kyma.
	// +optional
	Assignment *Assignment `json:"assignment,omitempty"`
	// Unowned is the ID of this Kyma's runtime if another Kyma has the same runtime ID or already owned the runtime.
	// This Kyma owns the runtime only after an operator assigns the runtime to it, even if the other Kyma was deleted.
	// +optional
	// +kubebuilder:validation:MaxLength:=63
	Unowned string `json:"unowned,omitempty"`
	// AssignedTo is the Kyma to which an operator assigned the runtime after this Kyma owned it, as NAMESPACE/NAME. This
	// Kyma is a former owner until an operator assigns the runtime to it again, even if the other Kyma was deleted.
	// +optional
	// +kubebuilder:validation:MaxLength:=317
	AssignedTo string `json:"assignedTo,omitempty"`
	// Agent identifies the agent that signs the runtime's reports.
	// +optional
	Agent *ReportingAgent `json:"agent,omitempty"`
}

// RuntimeReasons explain a Kyma's conditions and module states. A field is unset while its condition is True. The value
// Other means that no specific reason exists for the problem.
type RuntimeReasons struct {
	// Publish is the reason why no newer bundle could be published. Condition Ready then has the reason PublishFailed.
	// +optional
	Publish Reason `json:"publish,omitempty"`
	// Secrets is the reason why the publisher could not encrypt Secrets for the runtime, or the agent could not write
	// them. It explains condition Secrets.
	// +optional
	Secrets Reason `json:"secrets,omitempty"`
	// Report is the reason why the latest report was refused, could not be read, or omits the modules that the runtime
	// requests. It explains condition Reporting.
	// +optional
	Report Reason `json:"report,omitempty"`
	// Bundle is the reason why the runtime refused a bundle. Condition Accepted then has the reason BundleRefused.
	// +optional
	Bundle Reason `json:"bundle,omitempty"`
	// Modules lists the reasons for modules that are not Ready, not resolved, or waiting for a maintenance window,
	// sorted by name.
	// +optional
	// +listType=atomic
	Modules []ModuleReasons `json:"modules,omitempty"`
}

// ModuleReasons contains one module's reasons.
type ModuleReasons struct {
	// Name is the module's name in status.modules.
	Name string `json:"name"`
	// Problem is the reason why the control plane cannot resolve the module as requested.
	// +optional
	Problem Reason `json:"problem,omitempty"`
	// Version is the version that the control plane cannot resolve. Unset if Problem is unset or the module does not
	// follow a channel.
	// +optional
	Version string `json:"version,omitempty"`
	// Runtime is the reason that the runtime reports for the module's state.
	// +optional
	Runtime Reason `json:"runtime,omitempty"`
}

// Reason is a value from one of the lists in docs/reference/situations.md.
// +kubebuilder:validation:MaxLength:=64
// +kubebuilder:validation:Pattern:=`^[A-Za-z][A-Za-z0-9]*$`
type Reason string

// PublishedBundle describes the latest bundle that was published to the registry.
type PublishedBundle struct {
	// Epoch is the root of trust's epoch. Sequences increase within an epoch.
	// +optional
	Epoch    int64       `json:"epoch,omitempty"`
	Sequence int64       `json:"sequence"`
	Digest   string      `json:"digest"`
	Time     metav1.Time `json:"time"`
	// Versions are the module versions in the bundle, by module.
	// +optional
	Versions map[string]string `json:"versions,omitempty"`
	// Removals lists the modules that the bundle removes.
	// +optional
	Removals []string `json:"removals,omitempty"`
	// Mandatory lists the mandatory modules in the bundle, sorted by name. A runtime gets these modules without a
	// request.
	// +optional
	Mandatory []string `json:"mandatory,omitempty"`
	// RolledBackFrom are the versions that the bundle rolls back, by module.
	// +optional
	RolledBackFrom map[string]string `json:"rolledBackFrom,omitempty"`
	// KymaGeneration is the runtime Kyma's generation from which the bundle was resolved, or 0 if the runtime has not
	// reported its Kyma yet.
	// +optional
	KymaGeneration int64 `json:"kymaGeneration,omitempty"`
	// Commit is the Git commit from which the control plane was applied when the bundle was built. Empty if the control
	// plane does not follow a Git repository.
	// +optional
	Commit string `json:"commit,omitempty"`
	// Certificate is the validity of the certificate last issued to the runtime's agent. Unset if no certificate was
	// issued for the agent's key.
	// +optional
	Certificate *CertificateLife `json:"certificate,omitempty"`
	// Given records the module versions that rollouts assigned to the runtime, by module.
	// +optional
	Given map[string]GivenVersion `json:"given,omitempty"`
}

// BundleRecord is a summary of a bundle for readers of the status. It does not prove who signed the bundle.
type BundleRecord struct {
	// +optional
	Epoch    int64  `json:"epoch,omitempty"`
	Sequence int64  `json:"sequence"`
	Digest   string `json:"digest"`
	// Published is the time when the bundle was issued.
	Published metav1.Time `json:"published"`
	// Commit is the Git commit from which the control plane was applied when the bundle was built. Empty if the control
	// plane does not follow a Git repository.
	// +optional
	Commit string `json:"commit,omitempty"`
	// Changes lists modules whose version differs from the previous bundle, sorted by name, at most three. More is the
	// number of changed modules that Changes omits.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems:=3
	Changes []VersionChange `json:"changes,omitempty"`
	// +optional
	More int32 `json:"more,omitempty"`
	// Applied is the time when the control plane first received a report that the runtime has applied the bundle. It is
	// measured with the control plane's clock.
	// +optional
	Applied *metav1.Time `json:"applied,omitempty"`
	// State is the worst module state while this bundle was the latest bundle. It is from the last report with which
	// the runtime confirmed that it had applied the bundle.
	// +optional
	State State `json:"state,omitempty"`
	// Refused is the runtime's reason for refusing the bundle, from bundle/refusal, or Other for a reason that the
	// publisher does not know.
	// +optional
	Refused string `json:"refused,omitempty"`
	// Superseded describes how the latest bundle differs from this older bundle. It is set until the runtime reports
	// that it has applied the latest bundle. It is unset if the difference is unknown or too large.
	// +optional
	Superseded *BundleDifference `json:"superseded,omitempty"`
}

// VersionChange is a version change in a bundle. From is empty for an added module. To is empty for a removed module.
type VersionChange struct {
	Module string `json:"module"`
	// +optional
	From string `json:"from,omitempty"`
	// +optional
	To string `json:"to,omitempty"`
}

// CertificateLife is the validity period of a certificate.
type CertificateLife struct {
	NotBefore metav1.Time `json:"notBefore"`
	NotAfter  metav1.Time `json:"notAfter"`
}

// BundleDifference describes how the latest bundle differs from an older bundle.
type BundleDifference struct {
	// Changed lists the modules that differ, or could differ. For all other modules, a report about the older bundle is
	// also valid for the latest bundle.
	// +optional
	Changed []string `json:"changed,omitempty"`
}

// ObservedBundle describes a runtime and the bundle that it has applied, as last reported.
type ObservedBundle struct {
	Epoch    int64  `json:"epoch"`
	Sequence int64  `json:"sequence"`
	Digest   string `json:"digest"`
	// Time is the time when the runtime wrote the report, measured with the runtime's clock.
	Time metav1.Time `json:"time"`
	// Heard is the time when the control plane first received this report, measured with the control plane's clock.
	// Later reports with the same content update this time only once a day. To find silent runtimes, use condition
	// Reporting.
	// +optional
	Heard *metav1.Time `json:"heard,omitempty"`
	// Report is the digest of the report's content, without its time and sequence.
	// +optional
	Report string `json:"report,omitempty"`
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// ClusterUID is the UID of the runtime's kube-system namespace.
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`
	// Features lists the bundle features that the agent supports.
	// +optional
	// +listType=atomic
	Features []string `json:"features,omitempty"`
}

// RuntimeKey is the key with which the agent signs the runtime's reports.
type RuntimeKey struct {
	// Thumbprint is the SHA-256 digest of the key's PKIX form, encoded in base64.
	Thumbprint string `json:"thumbprint"`
	// PublicKey is the key's PKIX form, encoded in base64.
	PublicKey string `json:"publicKey"`
	// TokenExpires is the expiry of the token that enrolled the key. Only a later token can enroll a new key.
	// +optional
	TokenExpires metav1.Time `json:"tokenExpires,omitempty"`
	// Recipient is the age recipient to which Secrets for the runtime are encrypted, from its last report.
	// +optional
	Recipient string `json:"recipient,omitempty"`
	// ClusterUID is the UID of the kube-system namespace in the first cluster that used the key. Reports from other
	// clusters are refused.
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`
}

// GetConditions returns the Kyma's conditions. Libraries that patch conditions require this method.
func (k *Kyma) GetConditions() []metav1.Condition { return k.Status.Conditions }

// SetConditions replaces the Kyma's conditions.
func (k *Kyma) SetConditions(conditions []metav1.Condition) { k.Status.Conditions = conditions }
