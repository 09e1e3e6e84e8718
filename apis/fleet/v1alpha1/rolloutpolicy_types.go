package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutPolicy defines the waves in which promotions of the selected modules reach the runtimes in the selected
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
// and channel, the policy whose name sorts first applies.
//
// +kubebuilder:validation:XValidation:rule="size(self.waves) <= 20",message="waves: at most 20"
type RolloutPolicySpec struct {
	// Modules lists the modules that the policy applies to. If empty, the policy applies to all modules.
	// +optional
	// +kubebuilder:validation:MaxItems:=500
	Modules []string `json:"modules,omitempty"`
	// Channels lists the channels that the policy applies to. If empty, the policy applies to all channels.
	// +optional
	// +kubebuilder:validation:MaxItems:=50
	Channels []string `json:"channels,omitempty"`
	Course   `json:",inline"`
}

// Course defines a rollout's waves and the action after a failure.
type Course struct {
	// Waves run one after another. A runtime belongs to the first wave that selects it. Runtimes that no wave selects
	// form the last wave "rest", which has the same settings as the last wave in this list.
	// +kubebuilder:validation:MinItems:=1
	// +kubebuilder:validation:MaxItems:=21
	// +listType=map
	// +listMapKey=name
	Waves []Wave `json:"waves"`
	// OnFailure is the action when a wave exceeds its maximum number of failures.
	// +kubebuilder:default:=Rollback
	OnFailure OnFailure `json:"onFailure,omitempty"`
	// OfflineAfter is the time without a report after which a runtime counts as deferred instead of updated or failed.
	// +kubebuilder:default:="15m"
	// +kubebuilder:validation:Type:=string
	// +kubebuilder:validation:MaxLength:=20
	// +kubebuilder:validation:Pattern:=`^(0|([0-9]{1,6}(\.[0-9]{1,9})?(h|m|s|ms|us|ns))+)$`
	OfflineAfter metav1.Duration `json:"offlineAfter,omitzero"`
}

// Wave is one step of a rollout. Set exactly one of selector, percent and count to select its runtimes.
//
// +kubebuilder:validation:XValidation:rule="(has(self.selector) ? 1 : 0) + (has(self.percent) ? 1 : 0) + (has(self.count) ? 1 : 0) == 1",message="exactly one of selector, percent and count is required"
type Wave struct {
	// +kubebuilder:validation:Pattern:=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength:=40
	Name string `json:"name"`
	// Selector selects runtimes by the labels on their Kymas in the control plane.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Percent is a percentage of all runtimes that follow the channel, rounded up; 100 selects all remaining runtimes.
	// A hash of the policy's name and the runtime ID selects the runtimes, so each of the policy's rollouts starts with
	// the same runtimes.
	// +optional
	// +kubebuilder:validation:Minimum:=1
	// +kubebuilder:validation:Maximum:=100
	Percent *int32 `json:"percent,omitempty"`
	// Count is the number of runtimes in the wave. The same hash as for percent selects them.
	// +optional
	// +kubebuilder:validation:Minimum:=1
	Count *int32 `json:"count,omitempty"`
	// MaxConcurrent limits the runtimes that are updated at the same time: a number, or a percentage of the wave, at
	// least 1 and at most 500. An update ends when the runtime has reported an outcome. If unset, all runtimes in the
	// wave are updated at once.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`
	// Soak is the time that the publisher watches a ready wave before it starts the next wave.
	// +optional
	// +kubebuilder:validation:Type:=string
	// +kubebuilder:validation:MaxLength:=20
	// +kubebuilder:validation:Pattern:=`^(0|([0-9]{1,6}(\.[0-9]{1,9})?(h|m|s|ms|us|ns))+)$`
	Soak metav1.Duration `json:"soak,omitzero"`
	// MinReady is the minimum number of updated runtimes in a proven wave: a number, or a percentage of the runtimes
	// that are not deferred, rounded up. If unset, all runtimes that are neither failed nor deferred must be updated.
	// Unless the wave is empty, at least one runtime must be updated.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MinReady *intstr.IntOrString `json:"minReady,omitempty"`
	// MaxFailures is the maximum number of failed runtimes in the wave: a number, or a percentage of the wave, rounded
	// down. Defaults to 0 for a wave of fewer than 10 runtimes, and to 1%, but at least 1, for a larger wave.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`
	// MaxDeferred is the maximum number of deferred runtimes when the next wave starts: a number, or a percentage of
	// the wave, rounded down. Defaults to 25%. A runtime is deferred if it is offline, waits for its maintenance
	// window, or cannot get the version. The rollout waits while more runtimes are deferred.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxDeferred *intstr.IntOrString `json:"maxDeferred,omitempty"`
	// Deadline is the time within which a runtime must become ready after a bundle with the version is published to it.
	// +kubebuilder:default:="30m"
	// +kubebuilder:validation:Type:=string
	// +kubebuilder:validation:MaxLength:=20
	// +kubebuilder:validation:Pattern:=`^(0|([0-9]{1,6}(\.[0-9]{1,9})?(h|m|s|ms|us|ns))+)$`
	Deadline metav1.Duration `json:"deadline,omitzero"`
	// AllowEmpty skips the wave while it has no runtimes. By default, the rollout waits for a runtime or for approval,
	// because an empty wave does not prove the version. If approval is set, an approval does not skip the empty wave.
	// +optional
	AllowEmpty bool `json:"allowEmpty,omitempty"`
	// Approval requires the wave's name in the Rollout's spec.approvedWaves before the wave starts.
	// +optional
	Approval bool `json:"approval,omitempty"`
	// FailsOn lists the symptoms that count as a failure. Error and Warning are module states. NotReady means that the
	// module is not Ready after the deadline.
	// +kubebuilder:default:={Error,NotReady}
	// +kubebuilder:validation:MinItems:=1
	// +listType=set
	FailsOn []Symptom `json:"failsOn,omitempty"`
	// Checks run in each runtime in the wave once the module is ready with the version. A runtime with a Failed check
	// counts as failed. The wave is proven once all checks in its updated runtimes are Passed.
	// +optional
	// +kubebuilder:validation:MaxItems:=10
	// +listType=map
	// +listMapKey=name
	Checks []Check `json:"checks,omitempty"`
}

// OnFailure is the action after a wave has failed.
// +kubebuilder:validation:Enum=Stop;Rollback
type OnFailure string

// OnFailureStop means that every runtime keeps its current version. OnFailureRollback means that every runtime that the
// rollout updated returns to its last good version.
const (
	OnFailureStop     OnFailure = "Stop"
	OnFailureRollback OnFailure = "Rollback"
)

// Symptom is a state of the updated module that can count as a failure.
// +kubebuilder:validation:Enum=Error;Warning;NotReady
type Symptom string

// SymptomError and SymptomWarning are module states. SymptomNotReady means that the module is not Ready after the
// deadline.
const (
	SymptomError    Symptom = "Error"
	SymptomWarning  Symptom = "Warning"
	SymptomNotReady Symptom = "NotReady"
)
