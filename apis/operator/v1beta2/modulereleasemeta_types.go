package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ModuleReleaseMeta assigns a version of a module to each channel.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=modulereleasemetas,shortName=mrm,categories=kyma-pull
// +kubebuilder:selectablefield:JSONPath=".spec.moduleName"
// +kubebuilder:printcolumn:name="Channels",type=string,JSONPath=".spec.channels"
// +kubebuilder:printcolumn:name="Mandatory",type=string,JSONPath=".spec.mandatory.version"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Beta",type=boolean,JSONPath=".spec.beta",priority=1
// +kubebuilder:printcolumn:name="Internal",type=boolean,JSONPath=".spec.internal",priority=1
type ModuleReleaseMeta struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ModuleReleaseMetaSpec `json:"spec,omitempty"`
}

// ModuleReleaseMetaList is a list of ModuleReleaseMetas.
//
// +kubebuilder:object:root=true
type ModuleReleaseMetaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ModuleReleaseMeta `json:"items"`
}

// ModuleReleaseMetaSpec assigns a module version to each channel.
//
// +kubebuilder:validation:XValidation:rule="(has(self.mandatory) && !has(self.channels)) || (!has(self.mandatory) && has(self.channels))",message="exactly one of 'mandatory' or 'channels' must be specified"
type ModuleReleaseMetaSpec struct {
	// ModuleName is the name of the module.
	// +kubebuilder:validation:Pattern:=`^([a-z]{3,}(-[a-z]{3,})*)?$`
	// +kubebuilder:validation:MaxLength:=64
	ModuleName string `json:"moduleName"`
	// OcmComponentName is the name of the module's OCM component.
	// +optional
	// +kubebuilder:validation:Pattern:=`^[a-z][-a-z0-9]*([.][a-z][-a-z0-9]*)*[.][a-z]{2,}(/[a-z][-a-z0-9_]*([.][a-z][-a-z0-9_]*)*)+$`
	// +kubebuilder:validation:MaxLength:=255
	OcmComponentName string `json:"ocmComponentName,omitempty"`
	// Channels lists the module's release channels with their versions.
	// +optional
	// +listType=map
	// +listMapKey=channel
	Channels []ChannelVersion `json:"channels,omitempty"`
	// Mandatory installs the module in every runtime.
	// +optional
	Mandatory *Mandatory `json:"mandatory,omitempty"`
	// Beta offers the module only to Kymas whose label operator.kyma-project.io/beta is "true".
	// +optional
	// +kubebuilder:default:=false
	Beta bool `json:"beta,omitempty"`
	// Internal offers the module only to Kymas whose label operator.kyma-project.io/internal is "true".
	// +optional
	// +kubebuilder:default:=false
	Internal bool `json:"internal,omitempty"`
	// KymaSelector offers the module only to the Kymas that it selects.
	// +optional
	KymaSelector *metav1.LabelSelector `json:"kymaSelector,omitempty"`
}

// ChannelVersion is the version of a module in a channel.
type ChannelVersion struct {
	// +kubebuilder:validation:Pattern:=^[a-z]+$
	// +kubebuilder:validation:MaxLength:=32
	// +kubebuilder:validation:MinLength:=3
	Channel string `json:"channel"`
	// +kubebuilder:validation:Pattern:=`^((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[a-zA-Z-][0-9a-zA-Z-]*)?)?$`
	// +kubebuilder:validation:MaxLength:=32
	Version string `json:"version"`
}

// Mandatory is the version of a module that is installed in every runtime.
type Mandatory struct {
	// +kubebuilder:validation:Pattern:=`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`
	// +kubebuilder:validation:MinLength:=1
	Version string `json:"version"`
}
