package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// ModuleTemplate describes one version of a module.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=mt,categories=kyma-pull
// +kubebuilder:selectablefield:JSONPath=".spec.moduleName"
// +kubebuilder:printcolumn:name="Module",type=string,JSONPath=".spec.moduleName"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.version"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Downtime",type=boolean,JSONPath=".spec.requiresDowntime",priority=1
// +kubebuilder:printcolumn:name="Mandatory",type=boolean,JSONPath=".spec.mandatory",priority=1
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
	// Version is the version of the module.
	// +optional
	// +kubebuilder:validation:Pattern:=`^((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[a-zA-Z-][0-9a-zA-Z-]*)?)?$`
	// +kubebuilder:validation:MaxLength:=32
	Version string `json:"version,omitempty"`
	// ModuleName is the name of the module.
	// +optional
	// +kubebuilder:validation:Pattern:=`^([a-z]{3,}(-[a-z]{3,})*)?$`
	// +kubebuilder:validation:MaxLength:=64
	ModuleName string `json:"moduleName,omitempty"`
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
	// Descriptor is the module's OCM component descriptor. If it is an empty object, the publisher reads the descriptor
	// from the registry.
	// +kubebuilder:pruning:PreserveUnknownFields
	Descriptor runtime.RawExtension `json:"descriptor"`
	// CustomStateCheck maps values of the default CR to module states.
	// +optional
	CustomStateCheck []CustomStateCheck `json:"customStateCheck,omitempty"`
	// Resources are links to information about the module.
	// +optional
	// +listType=map
	// +listMapKey=name
	Resources []ResourceLink `json:"resources,omitempty"`
	// Info describes the module to its users.
	// +optional
	Info *ModuleInfo `json:"info,omitempty"`
	// AssociatedResources lists the kinds of custom resources that the module's users create.
	// +optional
	AssociatedResources []metav1.GroupVersionKind `json:"associatedResources,omitempty"`
	// Manager identifies the object, such as a Deployment, whose readiness determines whether the module is ready.
	// +optional
	Manager *Manager `json:"manager,omitempty"`
}

// CustomStateCheck maps one value of the default CR to a module state.
type CustomStateCheck struct {
	JSONPath    string `json:"jsonPath"`
	Value       string `json:"value"`
	MappedState State  `json:"mappedState"`
}

// ResourceLink is a named link.
type ResourceLink struct {
	Name string `json:"name"`
	// +kubebuilder:validation:Format=uri
	Link string `json:"link"`
}

// ModuleInfo describes a module to its users.
type ModuleInfo struct {
	Repository    string `json:"repository"`
	Documentation string `json:"documentation"`
	// +optional
	// +listType=map
	// +listMapKey=name
	Icons []ModuleIcon `json:"icons,omitempty"`
}

// ModuleIcon is a named link to an icon.
type ModuleIcon struct {
	Name string `json:"name"`
	Link string `json:"link"`
}
