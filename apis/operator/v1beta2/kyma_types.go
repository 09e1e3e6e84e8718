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
	// Channel is the release channel of every module that does not set its own.
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
	// Version is the pinned version in status.runtime.requested.spec. It has no effect in spec: pin a module with the
	// annotation kyma-pull.dev/pinned-versions.
	// +optional
	// +kubebuilder:validation:Pattern:=`^((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[a-zA-Z-][0-9a-zA-Z-]*)?)?$`
	// +kubebuilder:validation:MaxLength:=32
	Version string `json:"version,omitempty"`
	// ControllerName selects only ModuleTemplates whose label operator.kyma-project.io/controller-name has this value.
	// If empty, it selects all.
	// +optional
	ControllerName string `json:"controller,omitempty"`
	// RemoteModuleTemplateRef names a ModuleTemplate in the runtime.
	// +optional
	RemoteModuleTemplateRef string `json:"remoteModuleTemplateRef,omitempty"`
	// CustomResourcePolicy defines whether the agent creates and deletes the default CR.
	// +kubebuilder:default:=CreateAndDelete
	CustomResourcePolicy CustomResourcePolicy `json:"customResourcePolicy,omitempty"`
	// Managed is false to leave the module's objects in place without managing them.
	// +kubebuilder:default:=true
	Managed bool `json:"managed"`
}

// KymaStatus is the observed state of a runtime.
type KymaStatus struct {
	// ActiveChannel is the channel that was last resolved.
	// +optional
	ActiveChannel string `json:"activeChannel,omitempty"`
	// State summarizes the modules and conditions.
	// +optional
	State State `json:"state,omitempty"`
	// ObservedGeneration is the generation of the spec that the status refers to. In a runtime, it is the generation
	// that the applied bundle was resolved from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ReadyModules is the number of managed modules that are Ready and their total, such as "3/4".
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
	// Runtime is the latest exchange between the control plane and the runtime. It has one owner as a whole, so
	// managedFields do not list each of its fields.
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
	// Message explains why the state is not Ready.
	// +optional
	Message string `json:"message,omitempty"`
	State   State  `json:"state"`
	// Manifest, Resource and Template are the objects of the module.
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

// TrackingObject names an object.
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

// RuntimeStatus is the latest state of the exchange between the control plane and the runtime.
type RuntimeStatus struct {
	// ID is the id of the runtime that this status refers to.
	// +optional
	ID string `json:"id,omitempty"`
	// Published is the latest bundle.
	// +optional
	Published *PublishedBundle `json:"published,omitempty"`
	// History lists the latest bundles with their outcome, newest first and at most five. It is written only along with
	// other changes, and begins with the first bundle of a publisher that supports it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems:=5
	History []BundleRecord `json:"history,omitempty"`
	// Requested is the spec of the runtime's own Kyma as last reported. The publisher resolves it.
	// +optional
	Requested *RequestedSpec `json:"requested,omitempty"`
	// Observed is the bundle that the last report refers to.
	// +optional
	Observed *ObservedBundle `json:"observed,omitempty"`
	// Reasons are the reasons behind conditions and module states as values from fixed lists. Programs read these;
	// people read the messages.
	// +optional
	Reasons *RuntimeReasons `json:"reasons,omitempty"`
	// HealthyUntil is the time when the runtime stops counting as healthy unless this object changes. Unset if it is not
	// healthy. A program that lists many Kymas needs to read only the others in full. It is written only along with other
	// changes.
	// +optional
	HealthyUntil *metav1.Time `json:"healthyUntil,omitempty"`
	// Running lists the running modules with their versions, after the sequence of the latest bundle, such as
	// 7:keda=1.7.0,mail=1.0.0=Unmanaged. States other than Ready are included. It is written together with
	// HealthyUntil, and unset without it or if it exceeds 1 KiB.
	// +optional
	Running string `json:"running,omitempty"`
	// Key is the runtime's public key.
	// +optional
	Key *RuntimeKey `json:"key,omitempty"`
	// ReportSequence is the sequence of the latest recorded report that Key signed.
	// +optional
	ReportSequence int64 `json:"reportSequence,omitempty"`
	// Secrets lists the runtime's Secrets as NAMESPACE/NAME: all that were published and are not known to be gone.
	// +optional
	Secrets []string `json:"secrets,omitempty"`
	// Takeover is the state of the runtime's takeover from lifecycle-manager. Unset after the takeover.
	// +optional
	Takeover *TakeoverStatus `json:"takeover,omitempty"`
	// Removals are decisions about modules that the control plane takes from the runtime without the runtime's own
	// request, sorted by module. Those that were allowed are dropped after a day.
	// +optional
	// +listType=atomic
	Removals []ModuleRemoval `json:"removals,omitempty"`
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

// RuntimeReasons are the reasons behind the conditions and module states of a Kyma. A field is unset while its
// condition is True. The value Other means that no specific reason exists for the problem.
type RuntimeReasons struct {
	// Publish is the cause of the reason PublishFailed of condition Ready: why no newer bundle could be published.
	// +optional
	Publish Reason `json:"publish,omitempty"`
	// Secrets is the reason why not all Secrets for the runtime are sealed or written, behind condition Secrets.
	// +optional
	Secrets Reason `json:"secrets,omitempty"`
	// Report is the reason why the latest report was refused, could not be read, or omits the modules that the runtime
	// requests, behind condition Reporting.
	// +optional
	Report Reason `json:"report,omitempty"`
	// Bundle is the reason why the runtime refused a bundle, behind the reason BundleRefused of condition Accepted.
	// +optional
	Bundle Reason `json:"bundle,omitempty"`
	// Modules lists the reasons of modules that are not Ready, not resolved, or waiting for a maintenance window,
	// sorted by name.
	// +optional
	// +listType=atomic
	Modules []ModuleReasons `json:"modules,omitempty"`
}

// ModuleReasons are the reasons of one module.
type ModuleReasons struct {
	// Name is the module's name in status.modules.
	Name string `json:"name"`
	// Problem is the reason why the control plane cannot resolve the module as requested.
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
	// Epoch is the epoch of the root of trust. Sequences grow within an epoch.
	// +optional
	Epoch    int64       `json:"epoch,omitempty"`
	Sequence int64       `json:"sequence"`
	Digest   string      `json:"digest"`
	Time     metav1.Time `json:"time"`
	// Versions are the versions of the modules in the bundle, by module.
	// +optional
	Versions map[string]string `json:"versions,omitempty"`
	// Removals lists the modules that the bundle removes.
	// +optional
	Removals []string `json:"removals,omitempty"`
	// Mandatory are the mandatory modules in the bundle, sorted: the runtime has them without a request of its own.
	// +optional
	Mandatory []string `json:"mandatory,omitempty"`
	// RolledBackFrom are the versions that the bundle rolls back, by module.
	// +optional
	RolledBackFrom map[string]string `json:"rolledBackFrom,omitempty"`
	// KymaGeneration is the generation of the runtime's Kyma that was resolved, or 0 before it is known.
	// +optional
	KymaGeneration int64 `json:"kymaGeneration,omitempty"`
	// Commit is the Git commit from which the control plane was applied when the bundle was built. Empty if it does not
	// follow a repository.
	// +optional
	Commit string `json:"commit,omitempty"`
	// Certificate is the validity of the certificate last issued to the runtime's agent. Unset if none was issued for
	// its key.
	// +optional
	Certificate *CertificateLife `json:"certificate,omitempty"`
	// Given records, by module, the versions that a rollout decided.
	// +optional
	Given map[string]GivenVersion `json:"given,omitempty"`
	// Earlier lists previous bundles that the runtime can still report, newest first and at most five. It is empty once
	// the runtime has reported this bundle. It omits bundles in which every module changed.
	// +optional
	Earlier []EarlierBundle `json:"earlier,omitempty"`
}

// BundleRecord is a summary of a bundle for readers of the status. Only the bundle itself proves its signer.
type BundleRecord struct {
	// +optional
	Epoch    int64  `json:"epoch,omitempty"`
	Sequence int64  `json:"sequence"`
	Digest   string `json:"digest"`
	// Published is the time when the bundle was issued.
	Published metav1.Time `json:"published"`
	// Commit is the Git commit from which the control plane was applied when the bundle was built. Empty if it does not
	// follow a repository.
	// +optional
	Commit string `json:"commit,omitempty"`
	// Changes lists the first modules whose version differs from the previous bundle, sorted by name and at most three.
	// More is the number of further ones.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems:=3
	Changes []VersionChange `json:"changes,omitempty"`
	// +optional
	More int32 `json:"more,omitempty"`
	// Applied is the time when the control plane first received a report that the runtime has applied the bundle, by the
	// control plane's clock.
	// +optional
	Applied *metav1.Time `json:"applied,omitempty"`
	// State is the worst state of the bundle's modules that was last reported while it was the latest bundle and
	// applied.
	// +optional
	State State `json:"state,omitempty"`
	// Refused is the runtime's reason for refusing the bundle, from bundle/refusal, or Other for a reason that the
	// publisher does not know.
	// +optional
	Refused string `json:"refused,omitempty"`
}

// VersionChange is a version change in a bundle. From is empty for an added module, To for a removed one.
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

// EarlierBundle is a bundle that a newer one has replaced.
type EarlierBundle struct {
	Digest string `json:"digest"`
	// Changed lists the modules that differ, or may differ, in the latest bundle. Reported states of all other modules
	// are also valid for the latest bundle.
	// +optional
	Changed []string `json:"changed,omitempty"`
}

// GivenVersion records a module version that a rollout decided.
type GivenVersion struct {
	// Rollout is the name of the Rollout.
	Rollout string `json:"rollout"`
	// Time is the time when the first bundle with the version was issued.
	Time metav1.Time `json:"time"`
	// State is the module's state in this version, from the latest report that refers to exactly the latest bundle and
	// the Kyma's generation. Empty without such a report.
	// +optional
	State State `json:"state,omitempty"`
	// Ready is true once such a report contained the state Ready.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// Checks are the results of the version's checks in such reports, sorted by name. Value and message change only with
	// the result.
	// +optional
	// +kubebuilder:validation:MaxItems:=10
	// +listType=map
	// +listMapKey=name
	Checks []CheckOutcome `json:"checks,omitempty"`
}

// RequestedSpec is the spec that a runtime's owner requests in the runtime.
type RequestedSpec struct {
	Spec KymaSpec `json:"spec"`
	// Generation is the generation of the runtime's Kyma.
	Generation int64 `json:"generation"`
}

// ObservedBundle is the bundle that a runtime has applied.
type ObservedBundle struct {
	Epoch    int64  `json:"epoch"`
	Sequence int64  `json:"sequence"`
	Digest   string `json:"digest"`
	// Time is the time when the runtime wrote the report, by its own clock.
	Time metav1.Time `json:"time"`
	// Heard is the time when the control plane first received this report, by its own clock. Later reports with the same
	// content update it only once a day: use condition Reporting to find silent runtimes.
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

// RuntimeKey is the key that signs the runtime's reports.
type RuntimeKey struct {
	// Thumbprint is base64 of the SHA-256 of the key's PKIX form.
	Thumbprint string `json:"thumbprint"`
	// PublicKey is base64 of the key's PKIX form.
	PublicKey string `json:"publicKey"`
	// TokenExpires is the expiry of the token that enrolled the key. Only a later token can enroll another key.
	// +optional
	TokenExpires metav1.Time `json:"tokenExpires,omitempty"`
	// Recipient is the age recipient to which Secrets for the runtime are encrypted, from its last report.
	// +optional
	Recipient string `json:"recipient,omitempty"`
	// ClusterUID is the UID of the kube-system namespace in the cluster that introduced the key. Reports of other clusters
	// are refused.
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`
}

// GetConditions returns the conditions, for libraries that patch them.
func (k *Kyma) GetConditions() []metav1.Condition { return k.Status.Conditions }

// SetConditions replaces the conditions.
func (k *Kyma) SetConditions(conditions []metav1.Condition) { k.Status.Conditions = conditions }
