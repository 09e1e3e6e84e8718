package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Manifest is one module to install in the cluster it lives in.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:categories=kyma-pull
// +kubebuilder:selectablefield:JSONPath=".status.state"
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=".status.state"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.version"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Manifest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ManifestSpec   `json:"spec,omitempty"`
	Status ManifestStatus `json:"status,omitempty"`
}

// ManifestList is a list of Manifests.
//
// +kubebuilder:object:root=true
type ManifestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Manifest `json:"items"`
}

// ManifestSpec says what to install.
type ManifestSpec struct {
	// Remote is true when the objects go to another cluster than the control plane's; here it changes nothing, because
	// a Manifest is installed by the agent beside it.
	Remote bool `json:"remote"`
	// Config is an image of values for a chart.
	// +optional
	Config *ImageSpec `json:"config,omitempty"`
	// Install is what to install.
	Install InstallInfo `json:"install"`
	// LocalizedImages are the images that replace those of the module.
	// +optional
	LocalizedImages []string `json:"localizedImages,omitempty"`
	// Resource is the module's default CR.
	// +optional
	// +nullable
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:XEmbeddedResource
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	Resource *unstructured.Unstructured `json:"resource,omitempty"`
	// Version is the module's.
	// +optional
	Version string `json:"version,omitempty"`
	// Manager is the object whose readiness is the module's.
	// +optional
	Manager *Manager `json:"manager,omitempty"`
	// CustomResourcePolicy says what becomes of the default CR.
	// +optional
	// +kubebuilder:default:=CreateAndDelete
	CustomResourcePolicy CustomResourcePolicy `json:"customResourcePolicy,omitempty"`
}

// InstallInfo names what to install.
type InstallInfo struct {
	// Name tells it apart, such as "raw-manifest".
	Name string `json:"name"`
	// Source is an ImageSpec.
	// +kubebuilder:pruning:PreserveUnknownFields
	Source runtime.RawExtension `json:"source"`
}

// ImageSpecType says how content is packed.
// +kubebuilder:validation:Enum=helm-chart;oci-ref;kustomize;""
type ImageSpecType string

// Kinds of content. OCIDir is never written by hand and so not in the enumeration of the config field.
const (
	// OCIRef is one blob: YAML, or a tar of YAML files, compressed or not.
	OCIRef ImageSpecType = "oci-ref"
	// OCIDir is a folder as a tar.
	OCIDir    ImageSpecType = "oci-dir"
	HelmChart ImageSpecType = "helm-chart"
	Kustomize ImageSpecType = "kustomize"
)

// ImageSpec names content in an OCI repository.
type ImageSpec struct {
	// Repo is the OCI repository with its host.
	// +optional
	Repo string `json:"repo,omitempty"`
	// Name is the name of the content.
	// +optional
	Name string `json:"name,omitempty"`
	// Ref is the digest, or for content that was not resolved here, a tag.
	// +optional
	Ref string `json:"ref,omitempty"`
	// +optional
	Type ImageSpecType `json:"type,omitempty"`
	// CredSecretSelector selects the Secret with the credentials.
	// +optional
	CredSecretSelector *metav1.LabelSelector `json:"credSecretSelector,omitempty"`
}

// Manager names the object whose readiness is the module's.
type Manager struct {
	metav1.GroupVersionKind `json:",inline"`
	// Namespace defaults to that of the Manifest.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// ManifestStatus is what became of a Manifest.
type ManifestStatus struct {
	State State `json:"state"`
	// ObservedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Synced is the inventory: the objects that were applied.
	// +optional
	// +listType=atomic
	Synced []Resource `json:"synced,omitempty"`
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
}

// Resource is an entry of the inventory.
type Resource struct {
	Name                    string `json:"name"`
	Namespace               string `json:"namespace"`
	metav1.GroupVersionKind `json:",inline"`
}

// GetConditions returns the conditions, for libraries that keep them.
func (m *Manifest) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions.
func (m *Manifest) SetConditions(conditions []metav1.Condition) { m.Status.Conditions = conditions }
