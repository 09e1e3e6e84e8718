package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutPolicy defines the waves in which promotions of the selected modules reach the runtimes of the selected
// channels.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=rolloutpolicies,categories=kyma-pull
// +kubebuilder:printcolumn:name="Modules",type=string,JSONPath=".spec.modules"
// +kubebuilder:printcolumn:name="Channels",type=string,JSONPath=".spec.channels"
// +kubebuilder:printcolumn:name="On failure",type=string,JSONPath=".spec.onFailure"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Offline After",type=string,JSONPath=".spec.offlineAfter",priority=1
type RolloutPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RolloutPolicySpec `json:"spec"`
}

// RolloutPolicyList is a list of RolloutPolicies.
//
// +kubebuilder:object:root=true
type RolloutPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RolloutPolicy `json:"items"`
}

// RolloutPolicySpec selects modules and channels and defines their rollouts. If several policies select the same module
// and channel, the one whose name sorts first applies.
type RolloutPolicySpec struct {
	// Modules lists the modules that the policy applies to. If empty, it applies to all.
	// +optional
	// +kubebuilder:validation:MaxItems:=500
	Modules []string `json:"modules,omitempty"`
	// Channels are the channels that the policy is for, empty for all.
	// +optional
	// +kubebuilder:validation:MaxItems:=50
	Channels []string `json:"channels,omitempty"`
	Course   `json:",inline"`
}

// Course defines the steps of a rollout.
type Course struct {
	// Waves run one after another. A runtime belongs to the first wave that selects it. Runtimes that no wave selects
	// form a last wave "rest" with the settings of the wave before it.
	// +kubebuilder:validation:MinItems:=1
	// +kubebuilder:validation:MaxItems:=20
	// +listType=map
	// +listMapKey=name
	Waves []Wave `json:"waves"`
	// OnFailure is the action when a wave exceeds its maximum number of failures.
	// +kubebuilder:default:=Rollback
	OnFailure OnFailure `json:"onFailure,omitempty"`
	// OfflineAfter is the time without a report after which a runtime counts as deferred, neither updated nor failed.
	// +kubebuilder:default:="15m"
	OfflineAfter metav1.Duration `json:"offlineAfter,omitzero"`
}

// Wave is one step of a rollout. Set exactly one of selector, percent and count to select its runtimes.
//
// +kubebuilder:validation:XValidation:rule="(has(self.selector) ? 1 : 0) + (has(self.percent) ? 1 : 0) + (has(self.count) ? 1 : 0) == 1",message="exactly one of selector, percent and count is required"
type Wave struct {
	// +kubebuilder:validation:Pattern:=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength:=40
	Name string `json:"name"`
	// Selector selects runtimes by the labels of their Kymas in the control plane.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Percent is a share of all runtimes that follow the channel, rounded up; 100 selects all remaining runtimes. A
	// hash of policy and runtime picks them, so each rollout of the policy starts with the same ones.
	// +optional
	// +kubebuilder:validation:Minimum:=1
	// +kubebuilder:validation:Maximum:=100
	Percent *int32 `json:"percent,omitempty"`
	// Count is a number of runtimes, picked as for percent.
	// +optional
	// +kubebuilder:validation:Minimum:=1
	Count *int32 `json:"count,omitempty"`
	// MaxConcurrent limits the runtimes that were given the version and have not reported an outcome: a number, or a
	// percentage of the wave, at least 1 and at most 500. If unset, all runtimes of the wave are updated at once.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`
	// Soak is the time to watch a ready wave before the next one starts.
	// +optional
	Soak metav1.Duration `json:"soak,omitzero"`
	// MinReady is the number of runtimes that must be updated: a number, or a percentage of the runtimes that are not
	// deferred, rounded up. If unset, all runtimes must be updated except failed ones. At least one must be updated,
	// unless the wave is empty.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MinReady *intstr.IntOrString `json:"minReady,omitempty"`
	// MaxFailures is the number of runtimes that can fail: a number, or a percentage of the wave, rounded down. Defaults
	// to 0 for a wave of fewer than 10 runtimes, and otherwise to 1% but at least 1.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`
	// MaxDeferred is the number of runtimes that can be offline when the next wave starts: a number, or a percentage of
	// the wave, rounded down. Defaults to 25%. The rollout waits while more are offline.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxDeferred *intstr.IntOrString `json:"maxDeferred,omitempty"`
	// Deadline is the time in which a runtime must become ready after it was given the version.
	// +kubebuilder:default:="30m"
	Deadline metav1.Duration `json:"deadline,omitzero"`
	// AllowEmpty lets the rollout pass the wave if its selector matches no runtime. By default, the rollout waits for a
	// runtime that matches or for an approval of the wave, because an empty wave does not prove the version.
	// +optional
	AllowEmpty bool `json:"allowEmpty,omitempty"`
	// Approval requires the wave's name in the Rollout's spec.approvedWaves before the wave starts.
	// +optional
	Approval bool `json:"approval,omitempty"`
	// FailsOn lists the symptoms that count as a failure: module state Error, module state Warning, or NotReady after
	// the deadline.
	// +kubebuilder:default:={Error,NotReady}
	// +kubebuilder:validation:MinItems:=1
	// +listType=set
	FailsOn []Symptom `json:"failsOn,omitempty"`
	// Checks are measured in each runtime of the wave once it is ready with the version. A Failed check makes the runtime
	// count as failed. The wave is proven once all checks of its updated runtimes are Passed.
	// +optional
	// +kubebuilder:validation:MaxItems:=10
	// +listType=map
	// +listMapKey=name
	Checks []Check `json:"checks,omitempty"`
}

// OnFailure is the action after a wave failed.
// +kubebuilder:validation:Enum=Stop;Rollback
type OnFailure string

// Stop leaves every runtime as it is. Rollback returns every runtime that the rollout updated to its last good version.
const (
	OnFailureStop     OnFailure = "Stop"
	OnFailureRollback OnFailure = "Rollback"
)

// Symptom is a symptom that can count as a failure.
// +kubebuilder:validation:Enum=Error;Warning;NotReady
type Symptom string

// Error and Warning are states that the module reports. NotReady means that it is not Ready after the deadline.
const (
	SymptomError    Symptom = "Error"
	SymptomWarning  Symptom = "Warning"
	SymptomNotReady Symptom = "NotReady"
)
