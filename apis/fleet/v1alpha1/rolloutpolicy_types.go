package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutPolicy says in which waves the promotions of some modules reach the runtimes of some channels.
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

// RolloutPolicySpec says what a policy is for and what it asks. Of two policies for the same module and channel the one
// whose name sorts first counts.
type RolloutPolicySpec struct {
	// Modules are the modules that the policy is for, empty for all.
	// +optional
	// +kubebuilder:validation:MaxItems:=500
	Modules []string `json:"modules,omitempty"`
	// Channels are the channels that the policy is for, empty for all.
	// +optional
	// +kubebuilder:validation:MaxItems:=50
	Channels []string `json:"channels,omitempty"`
	Course   `json:",inline"`
}

// Course is how a rollout goes.
type Course struct {
	// Waves come one after the other. A runtime belongs to the first that selects it; what no wave selects is a last wave
	// "rest", which is as the one before it.
	// +kubebuilder:validation:MinItems:=1
	// +kubebuilder:validation:MaxItems:=20
	// +listType=map
	// +listMapKey=name
	Waves []Wave `json:"waves"`
	// OnFailure says what follows when a wave has more failures than it may have.
	// +kubebuilder:default:=Rollback
	OnFailure OnFailure `json:"onFailure,omitempty"`
	// OfflineAfter is the silence after which a runtime counts as deferred: neither as updated nor as failed.
	// +kubebuilder:default:="15m"
	OfflineAfter metav1.Duration `json:"offlineAfter,omitzero"`
}

// Wave is one step of a rollout. Exactly one of selector, percent and count says which runtimes it is for.
//
// +kubebuilder:validation:XValidation:rule="(has(self.selector) ? 1 : 0) + (has(self.percent) ? 1 : 0) + (has(self.count) ? 1 : 0) == 1",message="exactly one of selector, percent and count is required"
type Wave struct {
	// +kubebuilder:validation:Pattern:=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength:=40
	Name string `json:"name"`
	// Selector selects runtimes by the labels of their Kymas in the control plane.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Percent is a share of all runtimes that follow the channel, rounded up; 100 is all that are left. Which ones they
	// are is a hash of policy and runtime: today's canary is tomorrow's.
	// +optional
	// +kubebuilder:validation:Minimum:=1
	// +kubebuilder:validation:Maximum:=100
	Percent *int32 `json:"percent,omitempty"`
	// Count is a number of runtimes, chosen as for percent.
	// +optional
	// +kubebuilder:validation:Minimum:=1
	Count *int32 `json:"count,omitempty"`
	// MaxConcurrent bounds the runtimes that have the version and did not say yet how it went, as a number or as a
	// percentage of the wave; at least 1, at most 500. Without it all runtimes of the wave go at once.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`
	// Soak is how long the wave is watched once it is ready, before the next one starts.
	// +optional
	Soak metav1.Duration `json:"soak,omitzero"`
	// MinReady is how many runtimes have to be updated, as a number or as a percentage of those that are not deferred,
	// rounded up. Without it all have to be but those that failed. In any case one has to be, unless the wave has none.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MinReady *intstr.IntOrString `json:"minReady,omitempty"`
	// MaxFailures is how many runtimes may fail, as a number or as a percentage of the wave, rounded down. Unless given:
	// none of a wave below 10 runtimes, else 1%, at least one.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`
	// MaxDeferred is how many runtimes may be offline for the next wave to start, as a number or as a percentage of the
	// wave, rounded down; 25% unless given. While there are more the rollout waits.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxDeferred *intstr.IntOrString `json:"maxDeferred,omitempty"`
	// Deadline is how long a runtime may take to be ready once it was given the version.
	// +kubebuilder:default:="30m"
	Deadline metav1.Duration `json:"deadline,omitzero"`
	// AllowEmpty lets the rollout pass the wave if its selector matches no runtime. Unless it is set, the rollout waits for
	// a runtime that matches or for an approval of the wave, because an empty wave proves nothing.
	// +optional
	AllowEmpty bool `json:"allowEmpty,omitempty"`
	// Approval lets the wave start only once its name is among a Rollout's spec.approvedWaves.
	// +optional
	Approval bool `json:"approval,omitempty"`
	// FailsOn says what counts as failed: the module's state Error, its state Warning, or NotReady after the deadline.
	// +kubebuilder:default:={Error,NotReady}
	// +kubebuilder:validation:MinItems:=1
	// +listType=set
	FailsOn []Symptom `json:"failsOn,omitempty"`
}

// OnFailure is what follows a wave's failure.
// +kubebuilder:validation:Enum=Stop;Rollback
type OnFailure string

// Stop leaves every runtime as it is; Rollback gives every runtime that the rollout touched its last good version back.
const (
	OnFailureStop     OnFailure = "Stop"
	OnFailureRollback OnFailure = "Rollback"
)

// Symptom is what can count as a failure.
// +kubebuilder:validation:Enum=Error;Warning;NotReady
type Symptom string

// Symptoms: the module reports Error or Warning, or is not Ready after the deadline.
const (
	SymptomError    Symptom = "Error"
	SymptomWarning  Symptom = "Warning"
	SymptomNotReady Symptom = "NotReady"
)
