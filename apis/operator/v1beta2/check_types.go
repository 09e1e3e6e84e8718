package v1beta2

// CheckResult is the outcome of a check.
// +kubebuilder:validation:Enum=Passed;Failed;Inconclusive
type CheckResult string

// Results of checks. Inconclusive includes a check that has not been measured often enough yet.
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
	// Value is the last measured value, Before the value of the same query before the upgrade. Empty without one.
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
