package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kyma says which modules a runtime shall have.
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

// KymaSpec is what a runtime's owner asks for.
type KymaSpec struct {
	// Channel is the release channel of every module that names none itself.
	// +kubebuilder:validation:Pattern:=^[a-z]+$
	// +kubebuilder:validation:MaxLength:=32
	// +kubebuilder:validation:MinLength:=3
	Channel string `json:"channel"`
	// SkipMaintenanceWindows lets upgrades that need downtime happen at once.
	// +optional
	SkipMaintenanceWindows bool `json:"skipMaintenanceWindows,omitempty"`
	// Modules are the modules asked for.
	// +optional
	// +listType=map
	// +listMapKey=name
	Modules []Module `json:"modules,omitempty"`
}

// Module asks for one module.
type Module struct {
	// Name is the module's name, that of a ModuleReleaseMeta; the older lookups take a ModuleTemplate's name,
	// namespace/name or component name too.
	Name string `json:"name"`
	// Channel overrides the Kyma's.
	// +optional
	// +kubebuilder:validation:Pattern:=^[a-z]+$
	// +kubebuilder:validation:MaxLength:=32
	// +kubebuilder:validation:MinLength:=3
	Channel string `json:"channel,omitempty"`
	// Version is the pinned version in status.runtime.requested.spec. It has no effect in spec: pin a module with the
	// annotation kyma-pull.dev/pinned-versions.
	// +optional
	// +kubebuilder:validation:Pattern:=`^((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[a-zA-Z-][0-9a-zA-Z-]*)?)?$`
	// +kubebuilder:validation:MaxLength:=32
	Version string `json:"version,omitempty"`
	// ControllerName lets only ModuleTemplates count that have the label operator.kyma-project.io/controller-name with
	// this value; empty for all.
	// +optional
	ControllerName string `json:"controller,omitempty"`
	// RemoteModuleTemplateRef names a ModuleTemplate in the runtime.
	// +optional
	RemoteModuleTemplateRef string `json:"remoteModuleTemplateRef,omitempty"`
	// CustomResourcePolicy says what becomes of the default CR.
	// +kubebuilder:default:=CreateAndDelete
	CustomResourcePolicy CustomResourcePolicy `json:"customResourcePolicy,omitempty"`
	// Managed is false when the module's objects shall stay as they are, without anybody looking after them.
	// +kubebuilder:default:=true
	Managed bool `json:"managed"`
}

// KymaStatus is what is known of a runtime.
type KymaStatus struct {
	// ActiveChannel is the channel that was resolved last.
	// +optional
	ActiveChannel string `json:"activeChannel,omitempty"`
	// State summarizes modules and conditions.
	// +optional
	State State `json:"state,omitempty"`
	// ObservedGeneration is the generation of the spec that the status is about: in a runtime, of the one that the bundle
	// in force answers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ReadyModules is how many modules are Ready of those that are looked after, for people, such as "3/4".
	// +optional
	ReadyModules string `json:"readyModules,omitempty"`
	// Conditions explain the state.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Modules are the modules with their states.
	// +optional
	Modules []ModuleStatus `json:"modules,omitempty"`
	// LastOperation is what happened last.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// LastHandledReconcileAt is the value of the annotation reconcile.fluxcd.io/requestedAt that was handled last.
	// +optional
	// +kubebuilder:validation:MaxLength:=64
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
	// Runtime is what the control plane and the runtime said to each other last. It has one owner as a whole, so that
	// managedFields do not name each of its fields.
	// +optional
	// +structType=atomic
	Runtime *RuntimeStatus `json:"runtime,omitempty"`
}

// LastOperation is what happened last, for people.
type LastOperation struct {
	Operation string `json:"operation"`
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`
}

// ModuleStatus is one module's.
type ModuleStatus struct {
	Name string `json:"name"`
	// FQDN is the name of the module's component.
	// +optional
	FQDN string `json:"fqdn,omitempty"`
	// OcmComponentName is the name of the module's component.
	// +optional
	OcmComponentName string `json:"ocmComponentName,omitempty"`
	// +optional
	Channel string `json:"channel,omitempty"`
	// +optional
	Version string `json:"version,omitempty"`
	// Message says why the state is not Ready.
	// +optional
	Message string `json:"message,omitempty"`
	State   State  `json:"state"`
	// Manifest, Resource and Template are the objects behind the module.
	// +optional
	Manifest *TrackingObject `json:"manifest,omitempty"`
	// +optional
	Resource *TrackingObject `json:"resource,omitempty"`
	// +optional
	Template *TrackingObject `json:"template,omitempty"`
	// Maintenance says that an upgrade waits for a maintenance window.
	// +optional
	// +kubebuilder:default:=false
	Maintenance bool `json:"maintenance,omitempty"`
}

// TrackingObject names an object.
type TrackingObject struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	PartialMeta PartialMeta `json:"metadata,omitempty"`
}

// PartialMeta is the part of an object's metadata that tracking needs.
type PartialMeta struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Generation int64 `json:"generation,omitempty"`
}

// RuntimeStatus is the conversation between control plane and runtime, as of its last words on either side.
type RuntimeStatus struct {
	// ID is the id of the runtime that all the rest is about.
	// +optional
	ID string `json:"id,omitempty"`
	// Published is the newest bundle.
	// +optional
	Published *PublishedBundle `json:"published,omitempty"`
	// History are the newest bundles with what became of them, the newest first and at most five. It is written together
	// with what changes besides, and begins with the first bundle that a publisher which knows of it has published.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems:=5
	History []BundleRecord `json:"history,omitempty"`
	// Requested is the spec of the runtime's own Kyma as last reported; it is what is resolved.
	// +optional
	Requested *RequestedSpec `json:"requested,omitempty"`
	// Observed is the bundle that the last report was about.
	// +optional
	Observed *ObservedBundle `json:"observed,omitempty"`
	// Reasons are the reasons behind conditions and module states as values from fixed lists. Programs read these; the
	// messages are for people.
	// +optional
	Reasons *RuntimeReasons `json:"reasons,omitempty"`
	// HealthyUntil is until when nothing is in the runtime's way, if this object does not change before; none where
	// something is. Whoever lists many Kymas has to read only the others in full. It is written together with what changes
	// besides.
	// +optional
	HealthyUntil *metav1.Time `json:"healthyUntil,omitempty"`
	// Running are the modules that run with their versions, after the sequence of the newest bundle, such as
	// 7:keda=1.7.0,mail=1.0.0=Unmanaged; a state is named where it is not Ready. It is written together with HealthyUntil,
	// and left out without it and where it had more than 1 KiB.
	// +optional
	Running string `json:"running,omitempty"`
	// Key is the runtime's own.
	// +optional
	Key *RuntimeKey `json:"key,omitempty"`
	// ReportSequence is that of the newest report that was accepted and noted, of those that Key signed.
	// +optional
	ReportSequence int64 `json:"reportSequence,omitempty"`
	// Secrets are the names, NAMESPACE/NAME in the runtime, of those that were given to it and are not known to be gone.
	// +optional
	Secrets []string `json:"secrets,omitempty"`
	// Takeover is what is remembered of the runtime's takeover from lifecycle-manager, while it lasts.
	// +optional
	Takeover *TakeoverStatus `json:"takeover,omitempty"`
	// Assignment is the newest decision of an operator that the runtime belongs to this Kyma: a token that its agent used,
	// or a hand-over.
	// +optional
	Assignment *Assignment `json:"assignment,omitempty"`
	// Unowned is the id of a runtime that another Kyma named or owned while this one named it. This Kyma does not own that
	// runtime until an operator assigns it, also after the other Kyma is gone.
	// +optional
	// +kubebuilder:validation:MaxLength:=63
	Unowned string `json:"unowned,omitempty"`
	// Agent is the agent that reports.
	// +optional
	Agent *ReportingAgent `json:"agent,omitempty"`
}

// Assignment is a decision of an operator that a runtime belongs to a Kyma. Of several, the newest counts.
type Assignment struct {
	// Decided is when the operator or the publisher made the decision, in Unix milliseconds.
	Decided int64 `json:"decided"`
	// Former are the Kymas that owned the runtime before, the newest last.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems:=8
	Former []FormerKyma `json:"former,omitempty"`
}

// FormerKyma names a Kyma that handed its runtime over.
type FormerKyma struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// +optional
	UID string `json:"uid,omitempty"`
}

// ReportingAgent is the agent that signs a runtime's reports. An agent chooses a new instance at each start and never
// uses an earlier one again.
type ReportingAgent struct {
	// Instance is the instance of the newest report, Since when the publisher first saw it.
	// +optional
	// +kubebuilder:validation:MaxLength:=128
	Instance string `json:"instance,omitempty"`
	// +optional
	Since metav1.MicroTime `json:"since,omitempty"`
	// Earlier are the instances before, the newest last.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems:=4
	// +kubebuilder:validation:items:MaxLength:=128
	Earlier []string `json:"earlier,omitempty"`
	// Clone explains why two agents use the runtime's key, empty if they do not. Nothing is published until an operator
	// enrolls one of them with another key.
	// +optional
	// +kubebuilder:validation:MaxLength:=512
	Clone string `json:"clone,omitempty"`
}

// RuntimeReasons are the reasons behind the conditions and module states of a Kyma. A field is unset while its
// condition is True. The value Other stands for a problem without a reason of its own.
type RuntimeReasons struct {
	// Publish is why no newer bundle could be published, behind the reason PublishFailed of condition Ready.
	// +optional
	Publish Reason `json:"publish,omitempty"`
	// Secrets is why not all Secrets for the runtime are sealed or written, behind condition Secrets.
	// +optional
	Secrets Reason `json:"secrets,omitempty"`
	// Report is why the newest report was refused, could not be read, or leaves out the modules that the runtime asks for,
	// behind condition Reporting.
	// +optional
	Report Reason `json:"report,omitempty"`
	// Bundle is why the runtime refused a bundle, behind the reason BundleRefused of condition Accepted.
	// +optional
	Bundle Reason `json:"bundle,omitempty"`
	// Modules are the reasons of modules that are not Ready, not resolved, or waiting for a maintenance window, sorted by
	// name.
	// +optional
	// +listType=atomic
	Modules []ModuleReasons `json:"modules,omitempty"`
}

// ModuleReasons are the reasons of one module.
type ModuleReasons struct {
	// Name is the module's name in status.modules.
	Name string `json:"name"`
	// Problem is why the control plane cannot resolve the module as asked.
	// +optional
	Problem Reason `json:"problem,omitempty"`
	// Runtime is the reason that the runtime reports for the module's state.
	// +optional
	Runtime Reason `json:"runtime,omitempty"`
}

// Reason is a value from one of the lists in docs/reference/situations.md.
// +kubebuilder:validation:MaxLength:=64
// +kubebuilder:validation:Pattern:=`^[A-Za-z][A-Za-z0-9]*$`
type Reason string

// PublishedBundle is a bundle in the registry.
type PublishedBundle struct {
	// Epoch is that of the root of trust; sequences grow within one.
	// +optional
	Epoch    int64       `json:"epoch,omitempty"`
	Sequence int64       `json:"sequence"`
	Digest   string      `json:"digest"`
	Time     metav1.Time `json:"time"`
	// Versions are the modules in the bundle with their versions.
	// +optional
	Versions map[string]string `json:"versions,omitempty"`
	// Removals are the modules that the bundle removes.
	// +optional
	Removals []string `json:"removals,omitempty"`
	// RolledBackFrom are the versions from which the bundle takes modules back, by module.
	// +optional
	RolledBackFrom map[string]string `json:"rolledBackFrom,omitempty"`
	// KymaGeneration is that of the runtime's Kyma that was resolved, 0 before it is known.
	// +optional
	KymaGeneration int64 `json:"kymaGeneration,omitempty"`
	// Commit is that of the repository from which the control plane had all that was asked for; empty where it follows
	// none.
	// +optional
	Commit string `json:"commit,omitempty"`
	// Certificate is how long the certificate holds, or held, that was issued to the runtime's agent last; none where none
	// was issued for its key.
	// +optional
	Certificate *CertificateLife `json:"certificate,omitempty"`
	// Given says of the modules whose version a rollout decided which one it was.
	// +optional
	Given map[string]GivenVersion `json:"given,omitempty"`
	// Earlier are the bundles before this one that the runtime may report still, the newest first and at most five. There
	// are none once it has reported this one, and none of which everything was changed.
	// +optional
	Earlier []EarlierBundle `json:"earlier,omitempty"`
}

// BundleRecord is what is remembered of a bundle for people, whether it is in force or not. Who signed it, only the
// bundle itself proves.
type BundleRecord struct {
	// +optional
	Epoch    int64  `json:"epoch,omitempty"`
	Sequence int64  `json:"sequence"`
	Digest   string `json:"digest"`
	// Published is when it was issued.
	Published metav1.Time `json:"published"`
	// Commit is that of the repository from which the control plane had all that was asked for; empty where it follows
	// none.
	// +optional
	Commit string `json:"commit,omitempty"`
	// Changes are the first modules of which it asks for another version than the bundle before, sorted by name and at
	// most three; More is how many others there are. It has none where it changes no version.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems:=3
	Changes []VersionChange `json:"changes,omitempty"`
	// +optional
	More int32 `json:"more,omitempty"`
	// Applied is when the control plane first heard, by its clock, that the runtime has applied it; none before.
	// +optional
	Applied *metav1.Time `json:"applied,omitempty"`
	// State is the worst of its modules' states that was known last while it was the newest bundle and applied.
	// +optional
	State State `json:"state,omitempty"`
	// Refused is the runtime's reason for refusing it, one of those of bundle/refusal, or Other for one that the publisher
	// does not know.
	// +optional
	Refused string `json:"refused,omitempty"`
}

// VersionChange is a module whose version a bundle changes. From is empty for one that is new, To for one that is
// removed.
type VersionChange struct {
	Module string `json:"module"`
	// +optional
	From string `json:"from,omitempty"`
	// +optional
	To string `json:"to,omitempty"`
}

// CertificateLife is from when until when a certificate holds.
type CertificateLife struct {
	NotBefore metav1.Time `json:"notBefore"`
	NotAfter  metav1.Time `json:"notAfter"`
}

// EarlierBundle is a bundle that another one has replaced.
type EarlierBundle struct {
	Digest string `json:"digest"`
	// Changed are the modules of which the newest bundle asks for something else than this one, or may do so. What a
	// report about this bundle says of other modules is true of the newest one as well.
	// +optional
	Changed []string `json:"changed,omitempty"`
}

// GivenVersion is how a module came to its version.
type GivenVersion struct {
	// Rollout is the name of the Rollout.
	Rollout string `json:"rollout"`
	// Time is when the first bundle with the version was issued.
	Time metav1.Time `json:"time"`
	// State is what the newest report that names the newest bundle and the Kyma's generation exactly says of the module in
	// this version; empty without one.
	// +optional
	State State `json:"state,omitempty"`
	// Ready says that such a report has once said the module to be ready.
	// +optional
	Ready bool `json:"ready,omitempty"`
}

// RequestedSpec is what a runtime's owner asks for there.
type RequestedSpec struct {
	Spec KymaSpec `json:"spec"`
	// Generation is that of the runtime's Kyma.
	Generation int64 `json:"generation"`
}

// ObservedBundle is the bundle a runtime has applied.
type ObservedBundle struct {
	Epoch    int64  `json:"epoch"`
	Sequence int64  `json:"sequence"`
	Digest   string `json:"digest"`
	// Time is when the runtime said so, by its own clock.
	Time metav1.Time `json:"time"`
	// Heard is when the control plane first saw this report, by its clock. Later reports that say the same are not noted
	// here before a day has passed: whether the runtime is silent, condition Reporting says.
	// +optional
	Heard *metav1.Time `json:"heard,omitempty"`
	// Report is the digest of what the report says, without its time and sequence.
	// +optional
	Report string `json:"report,omitempty"`
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// ClusterUID is the UID of the runtime's kube-system namespace.
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`
	// Features are the features of bundles that the agent understands.
	// +optional
	// +listType=atomic
	Features []string `json:"features,omitempty"`
}

// RuntimeKey is the key that a runtime's reports are signed with.
type RuntimeKey struct {
	// Thumbprint is base64 of the SHA-256 of the key's PKIX form.
	Thumbprint string `json:"thumbprint"`
	// PublicKey is base64 of the key's PKIX form.
	PublicKey string `json:"publicKey"`
	// TokenExpires is when the token expired that introduced the key; only a later token can introduce another.
	// +optional
	TokenExpires metav1.Time `json:"tokenExpires,omitempty"`
	// Recipient is whom Secrets for the runtime are encrypted to, in age's text form, as its last report says.
	// +optional
	Recipient string `json:"recipient,omitempty"`
	// ClusterUID is the UID of the kube-system namespace in the cluster that introduced the key. Reports of other clusters
	// are refused.
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`
}

// GetConditions returns the conditions, for libraries that keep them.
func (k *Kyma) GetConditions() []metav1.Condition { return k.Status.Conditions }

// SetConditions replaces the conditions.
func (k *Kyma) SetConditions(conditions []metav1.Condition) { k.Status.Conditions = conditions }
