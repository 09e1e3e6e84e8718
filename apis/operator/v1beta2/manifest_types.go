package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Manifest defines one module to install in the cluster that contains it.
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

// ManifestSpec defines the content to install.
type ManifestSpec struct {
	// Remote is true if the objects belong in a cluster other than the control plane. It has no effect, because the
	// agent always installs the Manifest in its own cluster.
	Remote bool `json:"remote"`
	// Config is an OCI image with values for a Helm chart.
	// +optional
	Config *ImageSpec `json:"config,omitempty"`
	// Install specifies the content to install.
	Install InstallInfo `json:"install"`
	// LocalizedImages lists the images that replace the module's images.
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
	// Version is the module's version.
	// +optional
	Version string `json:"version,omitempty"`
	// Manager identifies the object, such as a Deployment, whose readiness determines whether the module is ready.
	// +optional
	Manager *Manager `json:"manager,omitempty"`
	// CustomResourcePolicy defines whether the agent creates and deletes the default CR.
	// +optional
	// +kubebuilder:default:=CreateAndDelete
	CustomResourcePolicy CustomResourcePolicy `json:"customResourcePolicy,omitempty"`
}

// InstallInfo specifies the content to install.
type InstallInfo struct {
	// Name identifies the content, such as "raw-manifest".
	Name string `json:"name"`
	// Source is an ImageSpec that identifies the content in an OCI repository.
	// +kubebuilder:pruning:PreserveUnknownFields
	Source runtime.RawExtension `json:"source"`
}

// ImageSpecType is the packaging format of content.
// +kubebuilder:validation:Enum=helm-chart;oci-ref;kustomize;""
type ImageSpecType string

// Packaging formats for content. The enum of ImageSpecType omits OCIDir, because only programs write OCIDir.
const (
	// OCIRef is one blob that contains YAML or a tar archive of YAML files, compressed or not.
	OCIRef ImageSpecType = "oci-ref"
	// OCIDir is a folder in a tar archive.
	OCIDir    ImageSpecType = "oci-dir"
	HelmChart ImageSpecType = "helm-chart"
	Kustomize ImageSpecType = "kustomize"
)

// ImageSpec identifies content in an OCI repository.
type ImageSpec struct {
	// Repo is the OCI repository with its host.
	// +optional
	Repo string `json:"repo,omitempty"`
	// Name is the name of the content, such as "raw-manifest".
	// +optional
	Name string `json:"name,omitempty"`
	// Ref is the content's digest. In a Manifest that kyma-pull did not create, it can be a tag.
	// +optional
	Ref string `json:"ref,omitempty"`
	// +optional
	Type ImageSpecType `json:"type,omitempty"`
	// CredSecretSelector selects the Secret with the credentials for the repository.
	// +optional
	CredSecretSelector *metav1.LabelSelector `json:"credSecretSelector,omitempty"`
}

// Manager references the object, such as a Deployment, whose readiness determines whether the module is ready.
type Manager struct {
	metav1.GroupVersionKind `json:",inline"`
	// Namespace defaults to the Manifest's namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// ManifestStatus is the observed state of a Manifest.
type ManifestStatus struct {
	State State `json:"state"`
	// ObservedGeneration is the spec generation that the status refers to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Synced lists the objects that the agent has applied for the module.
	// +optional
	// +listType=atomic
	Synced []Resource `json:"synced,omitempty"`
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
}

// Resource identifies an object that the agent has applied for a Manifest.
type Resource struct {
	Name                    string `json:"name"`
	Namespace               string `json:"namespace"`
	metav1.GroupVersionKind `json:",inline"`
}

// GetConditions returns the Manifest's conditions. Libraries that patch conditions require this method.
func (m *Manifest) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetInventory replaces the inventory. It also sets the state of a status without one, because the state is required.
func (m *Manifest) SetInventory(inventory []Resource) {
	m.Status.Synced = inventory
	if m.Status.State == "" {
		m.Status.State = StateProcessing
	}
}

// SetConditions replaces the Manifest's conditions.
func (m *Manifest) SetConditions(conditions []metav1.Condition) { m.Status.Conditions = conditions }
