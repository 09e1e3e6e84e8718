package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Kyma defines the modules that a runtime must have.
//
// The order of its selectable fields differs from v1beta2, because API servers refuse identical selectable fields in
// versions with different schemas.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:unservedversion
// +kubebuilder:deprecatedversion:warning="kyma-project.io/v1beta1 Kyma is deprecated. Use v1beta2 instead."
// +kubebuilder:resource:shortName=ky,categories=kyma-pull
// +kubebuilder:selectablefield:JSONPath=".status.runtime.id"
// +kubebuilder:selectablefield:JSONPath=".status.activeChannel"
// +kubebuilder:selectablefield:JSONPath=".status.state"
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
type Kyma struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   KymaSpec           `json:"spec,omitempty"`
	Status v1beta2.KymaStatus `json:"status,omitempty"`
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
	Modules []v1beta2.Module `json:"modules,omitempty"`
	// Sync configures how the runtime's Kyma is synchronized.
	// +optional
	Sync *Sync `json:"sync,omitempty"`
}

// Sync configures how the runtime's Kyma is synchronized.
type Sync struct {
	// Enabled is true if the Kyma is synchronized with a runtime.
	// +optional
	// +kubebuilder:default:=false
	Enabled bool `json:"enabled"`
	// NoModuleCopy creates the runtime's Kyma without modules.
	// +optional
	// +kubebuilder:default:=true
	NoModuleCopy bool `json:"noModuleCopy"`
	// ModuleCatalog copies the module catalog to the runtime.
	// +optional
	// +kubebuilder:default:=true
	ModuleCatalog bool `json:"moduleCatalog"`
	// Namespace is the namespace of the runtime's Kyma.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Strategy has no effect, because the runtime's kubeconfig is no longer used. Only secret and local-secret are
	// accepted.
	// +optional
	// +kubebuilder:default:=secret
	Strategy string `json:"strategy,omitempty"`
}

// ModuleTemplate describes one version of a module.
//
// +kubebuilder:object:root=true
// +kubebuilder:unservedversion
// +kubebuilder:resource:shortName=mt,categories=kyma-pull
// +kubebuilder:deprecatedversion:warning="kyma-project.io/v1beta1 ModuleTemplate is deprecated. Use v1beta2 instead."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type ModuleTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ModuleTemplateSpec `json:"spec,omitempty"`
}

// ModuleTemplateList is a list of ModuleTemplates.
//
// +kubebuilder:object:root=true
type ModuleTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ModuleTemplate `json:"items"`
}

// ModuleTemplateSpec describes one version of a module.
type ModuleTemplateSpec struct {
	// Channel is the release channel for a template without a ModuleReleaseMeta.
	// +optional
	// +kubebuilder:validation:Pattern:=`^$|^[a-z]{3,}$`
	// +kubebuilder:validation:MaxLength:=32
	Channel string `json:"channel,omitempty"`
	// Mandatory installs the module in every runtime.
	// +optional
	Mandatory bool `json:"mandatory,omitempty"`
	// RequiresDowntime makes upgrades to this version wait for a maintenance window.
	// +optional
	RequiresDowntime bool `json:"requiresDowntime,omitempty"`
	// Data is the module's default CR.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:XEmbeddedResource
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	Data *unstructured.Unstructured `json:"data,omitempty"`
	// Descriptor is the module's OCM component descriptor.
	// +kubebuilder:pruning:PreserveUnknownFields
	Descriptor runtime.RawExtension `json:"descriptor"`
	// CustomStateCheck maps values of the default CR to module states.
	// +optional
	CustomStateCheck []v1beta2.CustomStateCheck `json:"customStateCheck,omitempty"`
	// Target is the cluster in which the module is installed.
	// +kubebuilder:validation:Enum=control-plane;remote
	Target Target `json:"target"`
}

// Target is the cluster in which a module is installed.
type Target string

// Values of spec.target.
const (
	TargetRemote       Target = "remote"
	TargetControlPlane Target = v1beta2.TargetControlPlane
)

// Manifest defines one module to install.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:unservedversion
// +kubebuilder:deprecatedversion:warning="kyma-project.io/v1beta1 Manifest is deprecated. Use v1beta2 instead."
// +kubebuilder:resource:categories=kyma-pull
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=".status.state"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type Manifest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v1beta2.ManifestSpec   `json:"spec,omitempty"`
	Status v1beta2.ManifestStatus `json:"status,omitempty"`
}

// ManifestList is a list of Manifests.
//
// +kubebuilder:object:root=true
type ManifestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Manifest `json:"items"`
}

// Watcher requests immediate notifications about changes to one resource in runtimes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:unservedversion
// +kubebuilder:deprecatedversion:warning="kyma-project.io/v1beta1 Watcher is deprecated. Use v1beta2 instead."
// +kubebuilder:resource:categories=kyma-pull
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type Watcher struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v1beta2.WatcherSpec   `json:"spec,omitempty"`
	Status v1beta2.WatcherStatus `json:"status,omitempty"`
}

// WatcherList is a list of Watchers.
//
// +kubebuilder:object:root=true
type WatcherList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Watcher `json:"items"`
}
