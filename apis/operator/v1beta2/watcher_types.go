package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Watcher requests immediate notifications about changes to one resource in runtimes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:categories=kyma-pull
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=".status.state"
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=".spec.resourceToWatch.resource"
// +kubebuilder:printcolumn:name="Field",type=string,JSONPath=".spec.field"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=".spec.resourceToWatch.group",priority=1
// +kubebuilder:printcolumn:name="Manager",type=string,JSONPath=".spec.manager",priority=1
type Watcher struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WatcherSpec   `json:"spec,omitempty"`
	Status WatcherStatus `json:"status,omitempty"`
}

// WatcherList is a list of Watchers.
//
// +kubebuilder:object:root=true
type WatcherList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Watcher `json:"items"`
}

// WatcherSpec selects the objects to watch.
type WatcherSpec struct {
	// ServiceInfo is the service that lifecycle-manager notifies about changes. kyma-pull ignores it.
	ServiceInfo Service `json:"serviceInfo"`
	// LabelsToWatch selects objects by label.
	// +optional
	LabelsToWatch map[string]string `json:"labelsToWatch,omitempty"`
	// ResourceToWatch is the resource type of the objects to watch.
	ResourceToWatch WatchableGVR `json:"resourceToWatch"`
	// Field is the part of the objects whose changes trigger a notification.
	Field FieldName `json:"field"`
	// Gateway selects the gateway through which lifecycle-manager receives changes. kyma-pull ignores it.
	Gateway GatewayConfig `json:"gateway"`
	// Manager is the name of the Kyma component that reacts to the changes.
	// +optional
	Manager string `json:"manager,omitempty"`
}

// FieldName is the part of an object that a Watcher watches, such as spec or status.
// +kubebuilder:validation:Enum=spec;status
type FieldName string

// WatchableGVR identifies a resource type by group, version and plural name.
type WatchableGVR struct {
	Group    string `json:"group"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
}

// Service identifies a Kubernetes Service.
type Service struct {
	Port      int64  `json:"port"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// GatewayConfig selects an Istio gateway by its labels.
type GatewayConfig struct {
	LabelSelector metav1.LabelSelector `json:"selector"`
}

// WatcherStatus is the observed state of a Watcher.
type WatcherStatus struct {
	State State `json:"state"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
