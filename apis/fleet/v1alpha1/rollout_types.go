package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rollout is one promotion of a module in a channel, on its way through the fleet. The publisher makes it; paused,
// approvedWaves, abort and undo steer it. Deleting the newest one lets the promotion start over.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:categories=kyma-pull
// +kubebuilder:selectablefield:JSONPath=".spec.module"
// +kubebuilder:selectablefield:JSONPath=".spec.channel"
// +kubebuilder:selectablefield:JSONPath=".status.state"
// +kubebuilder:printcolumn:name="Module",type=string,JSONPath=".spec.module"
// +kubebuilder:printcolumn:name="Channel",type=string,JSONPath=".spec.channel"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.to"
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=".status.state"
// +kubebuilder:printcolumn:name="Wave",type=string,JSONPath=".status.wave"
// +kubebuilder:printcolumn:name="Updated",type=string,JSONPath=".status.progress"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=".status.failed"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=".status.message"
type Rollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RolloutSpec   `json:"spec"`
	Status RolloutStatus `json:"status,omitempty"`
}

// RolloutList is a list of Rollouts.
//
// +kubebuilder:object:root=true
type RolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Rollout `json:"items"`
}

// RolloutSpec is what is rolled out and how. The course is the policy's as it was when the rollout began.
//
// +kubebuilder:validation:XValidation:rule="self.policy == oldSelf.policy && self.module == oldSelf.module && self.channel == oldSelf.channel && self.revision == oldSelf.revision && self.from == oldSelf.from && self.to == oldSelf.to",message="policy, module, channel, revision, from and to of a rollout do not change"
type RolloutSpec struct {
	// Policy is the name of the RolloutPolicy.
	Policy  string `json:"policy"`
	Module  string `json:"module"`
	Channel string `json:"channel"`
	// Revision counts the promotions of the module in the channel.
	Revision int64 `json:"revision"`
	// From is the last good version, To the promoted one.
	// +kubebuilder:validation:MinLength:=1
	From string `json:"from"`
	// +kubebuilder:validation:MinLength:=1
	To     string `json:"to"`
	Course `json:",inline"`
	// Paused lets no further runtime have the version; those that have it are still watched.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// ApprovedWaves are the waves that may start although they wait for an approval: by the policy, or because nothing
	// shows that the version works.
	// +optional
	// +listType=set
	ApprovedWaves []string `json:"approvedWaves,omitempty"`
	// Abort stops the rollout for good; runtimes that have the version keep it.
	// +optional
	Abort bool `json:"abort,omitempty"`
	// Undo gives every runtime that the rollout touched its last good version back, also after the rollout has succeeded.
	// +optional
	Undo bool `json:"undo,omitempty"`
	// Retry makes the publisher create another Rollout of the same version once this one is Stopped or RolledBack, if the
	// channel still has that version.
	// +optional
	Retry bool `json:"retry,omitempty"`
}

// RolloutStatus is how far a rollout is.
type RolloutStatus struct {
	// +optional
	State RolloutState `json:"state,omitempty"`
	// ObservedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are for tools that wait for objects: Ready once the rollout has brought the version to everybody or
	// another one came after it, Stalled where it has ended otherwise.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Message says what the rollout waits for, or why it ended.
	// +optional
	Message string `json:"message,omitempty"`
	// Wave is the current one for people, such as "2/3 tenth".
	// +optional
	Wave string `json:"wave,omitempty"`
	// Progress is updated and all runtimes for people, such as "12/40".
	// +optional
	Progress string `json:"progress,omitempty"`
	// Waves are those of the spec, in their order.
	// +optional
	Waves []WaveStatus `json:"waves,omitempty"`
	// Total are the runtimes that the rollout is for, Updated those that are ready with the version, Failed and Deferred
	// those that failed or are offline; once versions are taken back, Failed stays what it was. Reverted those that were
	// given their last good version back.
	// +optional
	Total int32 `json:"total,omitempty"`
	// +optional
	Updated int32 `json:"updated,omitempty"`
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// +optional
	Deferred int32 `json:"deferred,omitempty"`
	// +optional
	Reverted int32 `json:"reverted,omitempty"`
	// Failures are some of those that failed, at most 10.
	// +optional
	Failures []RuntimeFailure `json:"failures,omitempty"`
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// BackSince is when the rollout began to give last good versions back.
	// +optional
	BackSince *metav1.Time `json:"backSince,omitempty"`
	// ReleasedAt is when the channel had another version after the rollout was stopped or its version was taken back. From
	// then on, the channel can have the version again: the publisher creates another Rollout for it.
	// +optional
	ReleasedAt *metav1.Time `json:"releasedAt,omitempty"`
	// EstimatedEnd is when the rollout will be through if it goes on as it went, to the minute.
	// +optional
	EstimatedEnd *metav1.Time `json:"estimatedEnd,omitempty"`
}

// WaveStatus is how far a wave is.
type WaveStatus struct {
	Name string `json:"name"`
	// +optional
	State WaveState `json:"state,omitempty"`
	// Place is the highest hash that belongs to a wave by percent or count, as it was fixed when the rollout began. It is
	// not there for a wave of All.
	// +optional
	Place *int64 `json:"place,omitempty"`
	// All says that the wave is for all runtimes that belong to no wave before it.
	// +optional
	All bool `json:"all,omitempty"`
	// +optional
	Total int32 `json:"total,omitempty"`
	// +optional
	Updated int32 `json:"updated,omitempty"`
	// InFlight are the runtimes that have the version and did not say yet how it went.
	// +optional
	InFlight int32 `json:"inFlight,omitempty"`
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// +optional
	Deferred int32 `json:"deferred,omitempty"`
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// ReadyAt is when the soak began.
	// +optional
	ReadyAt *metav1.Time `json:"readyAt,omitempty"`
	// ProvenAt is when the next wave was free to start.
	// +optional
	ProvenAt *metav1.Time `json:"provenAt,omitempty"`
	// Granted are the runtimes that may have the version and whose Kyma does not say yet that they were given it, at most
	// 500.
	// +optional
	Granted []string `json:"granted,omitempty"`
	// Postponed are the runtimes whose place among maxConcurrent went to others because the publisher could not publish to
	// them for longer than offlineAfter. They get the version after the wave's other runtimes. At most 500.
	// +optional
	Postponed []PostponedRuntime `json:"postponed,omitempty"`
}

// PostponedRuntime is a runtime that gave its place in a wave to others.
type PostponedRuntime struct {
	Runtime string `json:"runtime"`
	// Since is when the publisher last withdrew the version from the runtime.
	Since metav1.Time `json:"since"`
}

// RuntimeFailure is one runtime that failed.
type RuntimeFailure struct {
	Runtime string `json:"runtime"`
	Wave    string `json:"wave"`
	Reason  string `json:"reason"`
}

// RolloutState is where a rollout stands.
// +kubebuilder:validation:Enum="";Progressing;Paused;Waiting;Stopped;RollingBack;RolledBack;Superseded;Succeeded
type RolloutState string

// States of a rollout.
const (
	// RolloutProgressing says that runtimes get the version, wave by wave.
	RolloutProgressing RolloutState = "Progressing"
	// RolloutPaused says that spec.paused is set: no further runtime gets the version.
	RolloutPaused RolloutState = "Paused"
	// RolloutWaiting says that the rollout waits for an approval, or for something in the spec to be corrected.
	RolloutWaiting RolloutState = "Waiting"
	// RolloutStopped says that the rollout has ended by failures or by spec.abort: runtimes keep the version that they
	// have.
	RolloutStopped RolloutState = "Stopped"
	// RolloutRollingBack says that runtimes are given their last good version back.
	RolloutRollingBack RolloutState = "RollingBack"
	// RolloutRolledBack says that the rollout has ended, and that runtimes were given their last good version back.
	RolloutRolledBack RolloutState = "RolledBack"
	// RolloutSuperseded says that a newer rollout of the module in the channel took its place.
	RolloutSuperseded RolloutState = "Superseded"
	// RolloutSucceeded says that all waves are proven.
	RolloutSucceeded RolloutState = "Succeeded"
)

// WaveState is where a wave stands.
// +kubebuilder:validation:Enum=Pending;Waiting;Progressing;Soaking;Proven;Failed
type WaveState string

// States of a wave.
const (
	// WavePending says that a wave before it is not proven yet.
	WavePending WaveState = "Pending"
	// WaveWaiting says that the wave waits for its approval.
	WaveWaiting WaveState = "Waiting"
	// WaveProgressing says that the wave's runtimes get the version.
	WaveProgressing WaveState = "Progressing"
	// WaveSoaking says that the wave's runtimes have the version and are watched for the time of its soak.
	WaveSoaking WaveState = "Soaking"
	// WaveProven says that the next wave may start.
	WaveProven WaveState = "Proven"
	// WaveFailed says that more runtimes of the wave failed than its policy allows.
	WaveFailed WaveState = "Failed"
)
