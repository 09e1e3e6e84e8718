package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ModuleRemoval is the decision about removing one module without a request from the runtime.
type ModuleRemoval struct {
	// Module is the module's name. Empty if the Kyma is deleted, which removes all modules.
	// +optional
	Module string `json:"module,omitempty"`
	// Decision is Held, Allowed or Approved.
	Decision RemovalDecision `json:"decision"`
	// Time is the time when the decision was made. An approval must contain this time.
	Time metav1.Time `json:"time"`
	// Reason is the reason why the removal waits for approval. For decision Allowed, it is Unrecorded if only the
	// runtime's report contained the module. Empty in all other cases.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Published is true if a published bundle removes the module.
	// +optional
	Published bool `json:"published,omitempty"`
}

// RemovalDecision is the decision about a removal.
// +kubebuilder:validation:Enum=Held;Allowed;Approved
type RemovalDecision string

const (
	// RemovalHeld means that the module stays until an operator approves its removal.
	RemovalHeld RemovalDecision = "Held"
	// RemovalAllowed means that the removal is within the publisher's limits and does not need approval.
	RemovalAllowed RemovalDecision = "Allowed"
	// RemovalApproved means that an operator approved the removal.
	RemovalApproved RemovalDecision = "Approved"
)
