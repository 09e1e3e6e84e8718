package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Assignment is an operator's decision that a runtime belongs to a Kyma. If several Kymas have an assignment for the
// runtime, the newest assignment applies.
type Assignment struct {
	// Decided is the time when the operator or the publisher made the decision, in Unix milliseconds.
	Decided int64 `json:"decided"`
	// Former lists the Kymas that owned the runtime before, newest last.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems:=8
	Former []FormerKyma `json:"former,omitempty"`
}

// FormerKyma identifies a Kyma that owned the runtime before.
type FormerKyma struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// +optional
	UID string `json:"uid,omitempty"`
}

// ReportingAgent identifies the agent that signs a runtime's reports. An agent chooses a new instance ID at each start
// and never reuses an earlier one.
type ReportingAgent struct {
	// Instance is the agent's instance ID in the newest report. Since is the time when the publisher first received
	// this instance ID.
	// +optional
	// +kubebuilder:validation:MaxLength:=128
	Instance string `json:"instance,omitempty"`
	// +optional
	Since metav1.MicroTime `json:"since,omitempty"`
	// Earlier lists the previous instance IDs, newest last.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems:=4
	// +kubebuilder:validation:items:MaxLength:=128
	Earlier []string `json:"earlier,omitempty"`
	// Clone describes how the publisher detected that two agents use the runtime's key. Empty if no clone was detected.
	// The publisher does not publish bundles until an operator enrolls one of the agents with a new key.
	// +optional
	// +kubebuilder:validation:MaxLength:=512
	Clone string `json:"clone,omitempty"`
}

// RequestedSpec is the spec of the runtime's own Kyma, as the runtime reported it.
type RequestedSpec struct {
	Spec KymaSpec `json:"spec"`
	// Generation is the generation of the runtime's Kyma.
	Generation int64 `json:"generation"`
	// Instance is the instance ID of the agent whose report contained the spec. It is empty if the agent reports no
	// instance ID, or if the agent enrolled another key and has not yet verified that no other agent uses this key. While
	// another instance reports, the spec can be outdated, so the publisher keeps modules that the spec does not request.
	// +optional
	// +kubebuilder:validation:MaxLength:=128
	Instance string `json:"instance,omitempty"`
}
