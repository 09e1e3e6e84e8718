package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Assignment is a decision of an operator that a runtime belongs to a Kyma. Of several, the newest counts.
type Assignment struct {
	// Decided is the time when the operator or the publisher made the decision, in Unix milliseconds.
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
