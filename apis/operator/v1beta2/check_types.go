package v1beta2

// CheckResult is the outcome of a check.
// +kubebuilder:validation:Enum=Passed;Failed;Inconclusive
type CheckResult string

// Results of checks. A check is Inconclusive until enough measurements in a row have succeeded or failed.
const (
	CheckPassed       CheckResult = "Passed"
	CheckFailed       CheckResult = "Failed"
	CheckInconclusive CheckResult = "Inconclusive"
)

// CheckOutcome is the outcome of a check in one runtime.
type CheckOutcome struct {
	// +kubebuilder:validation:MaxLength:=40
	Name   string      `json:"name"`
	Result CheckResult `json:"result"`
	// Definition is a hash of the check's definition. Only the control plane sets it. The result does not count for a
	// check with the same name and another definition.
	// +optional
	// +kubebuilder:validation:MaxLength:=16
	Definition string `json:"definition,omitempty"`
	// Value is the last measured value. Before is the value that the same query returned before the upgrade. Both are
	// empty if no value was measured.
	// +optional
	// +kubebuilder:validation:MaxLength:=32
	Value string `json:"value,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength:=32
	Before string `json:"before,omitempty"`
	// Message explains a Failed or Inconclusive result.
	// +optional
	// +kubebuilder:validation:MaxLength:=256
	Message string `json:"message,omitempty"`
}
