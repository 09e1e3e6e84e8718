package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Watcher asks for changes of a kind of object in runtimes to be told at once.
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

// WatcherSpec says what to watch.
type WatcherSpec struct {
	// ServiceInfo names who was called in a push system; accepted and without effect.
	ServiceInfo Service `json:"serviceInfo"`
	// LabelsToWatch select the objects.
	// +optional
	LabelsToWatch map[string]string `json:"labelsToWatch,omitempty"`
	// ResourceToWatch is the kind of object.
	ResourceToWatch WatchableGVR `json:"resourceToWatch"`
	// Field is the part whose changes count.
	Field FieldName `json:"field"`
	// Gateway named the way in of a push system; accepted and without effect.
	Gateway GatewayConfig `json:"gateway"`
	// Manager is who reacts.
	// +optional
	Manager string `json:"manager,omitempty"`
}

// FieldName is a part of an object.
// +kubebuilder:validation:Enum=spec;status
type FieldName string

// WatchableGVR is a kind of object.
type WatchableGVR struct {
	Group    string `json:"group"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
}

// Service names a Kubernetes Service.
type Service struct {
	Port      int64  `json:"port"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// GatewayConfig selects a gateway.
type GatewayConfig struct {
	LabelSelector metav1.LabelSelector `json:"selector"`
}

// WatcherStatus is what became of a Watcher.
type WatcherStatus struct {
	State State `json:"state"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
