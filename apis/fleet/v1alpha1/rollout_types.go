package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rollout is one promotion of a module in a channel, which reaches the fleet in waves. The publisher creates Rollouts.
// Operators control a Rollout with the fields paused, approvedWaves, approvedDeferredWaves, abort, undo and retry.
// Deleting the latest Rollout restarts the promotion.
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

// VersionRemoved is the value of spec.to in a Rollout that removes a module from its runtimes.
const VersionRemoved = "removed"

// RolloutSpec defines the module version and the waves of a rollout. The waves are copied from the policy when the
// rollout begins.
//
// +kubebuilder:validation:XValidation:rule="self.policy == oldSelf.policy && self.module == oldSelf.module && self.channel == oldSelf.channel && self.revision == oldSelf.revision && self.from == oldSelf.from && self.to == oldSelf.to && has(self.predecessors) == has(oldSelf.predecessors) && (!has(self.predecessors) || self.predecessors == oldSelf.predecessors)",message="policy, module, channel, revision, from, to and predecessors of a rollout do not change"
type RolloutSpec struct {
	// Policy is the name of the RolloutPolicy.
	Policy string `json:"policy"`
	Module string `json:"module"`
	// Channel is the channel of the promotion. It is empty if the Rollout removes a formerly mandatory module.
	Channel string `json:"channel"`
	// Revision numbers the module's promotions in the channel, starting with 1.
	Revision int64 `json:"revision"`
	// From is the version that runtimes get after a rollback: the last version before this rollout that is known to be
	// good. To is the promoted version, or "removed" in a Rollout that removes the module from its runtimes.
	// +kubebuilder:validation:MinLength:=1
	From string `json:"from"`
	// FromUnproven is true if no known rollout has proven the version in from, and the runtimes had different versions
	// before the first rollout. In that case, from is the most common of these versions, and a runtime with an older
	// version keeps that version until the rollout updates it. If fromUnproven is false, or if the rollout was rolled
	// back and the channel has the version in from again, such a runtime gets the version in from at once.
	// +optional
	FromUnproven bool `json:"fromUnproven,omitempty"`
	// +kubebuilder:validation:MinLength:=1
	To string `json:"to"`
	// Predecessors lists the Rollouts of the module and channel with the same from and to since the last successful
	// Rollout, for example a stopped Rollout before its retry. A rollback of this Rollout also returns the runtimes that
	// they updated.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems:=100
	// +kubebuilder:validation:items:MaxLength:=253
	Predecessors []string `json:"predecessors,omitempty"`
	Course       `json:",inline"`
	// Paused stops updates to further runtimes. The publisher continues to watch the runtimes that have the version.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// ApprovedWaves lists the names of the waves that an operator approved. A wave waits for approval if its policy
	// requires one, if no runtime has proven the version yet, or if the wave's checks are not Passed. If the policy
	// requires the approval, the wave's checks must also be Passed.
	// +optional
	// +listType=set
	ApprovedWaves []string `json:"approvedWaves,omitempty"`
	// ApprovedDeferredWaves lists the names of the waves that an operator approved although more runtimes are deferred
	// than maxDeferred allows. The other conditions of these waves still apply: at least one runtime must be updated.
	// +optional
	// +listType=set
	ApprovedDeferredWaves []string `json:"approvedDeferredWaves,omitempty"`
	// Abort stops the rollout permanently. Runtimes that have the version keep it.
	// +optional
	Abort bool `json:"abort,omitempty"`
	// Undo rolls back every runtime that the rollout or one of its predecessors updated, even after the rollout
	// succeeded. Each of these runtimes returns to its last good version.
	// +optional
	Undo bool `json:"undo,omitempty"`
	// Retry makes the publisher create another Rollout for the same version once this Rollout is Stopped or RolledBack,
	// if the channel still has that version.
	// +optional
	Retry bool `json:"retry,omitempty"`
}

// RolloutStatus is the observed state of a rollout.
type RolloutStatus struct {
	// +optional
	State RolloutState `json:"state,omitempty"`
	// ObservedGeneration is the spec generation that the status refers to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are for tools that wait for objects. Ready is True once the rollout has updated all its runtimes or
	// was superseded. Stalled is True if the rollout was stopped or rolled back.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Message explains why the rollout waits or why it ended.
	// +optional
	Message string `json:"message,omitempty"`
	// Wave is the number and name of the current wave, such as "2/3 tenth".
	// +optional
	Wave string `json:"wave,omitempty"`
	// Progress is the number of updated runtimes and the number of runtimes in the rollout, such as "12/40".
	// +optional
	Progress string `json:"progress,omitempty"`
	// Waves is the status of each wave, in spec order.
	// +optional
	Waves []WaveStatus `json:"waves,omitempty"`
	// Total is the number of runtimes in the rollout. Updated counts runtimes that are ready with the version, and
	// Failed counts failed runtimes. Deferred counts runtimes that are offline, wait for their maintenance window, or
	// cannot get the version. Reverted counts runtimes that were rolled back to their last good version; a rollback
	// does not change Failed.
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
	// Failures lists failed runtimes, at most 10.
	// +optional
	Failures []RuntimeFailure `json:"failures,omitempty"`
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// RollbackReason is the reason for the rollback.
	// +optional
	RollbackReason string `json:"rollbackReason,omitempty"`
	// BackSince is the time when the rollback began.
	// +optional
	BackSince *metav1.Time `json:"backSince,omitempty"`
	// ReleasedAt is the time when the channel first had a different version after this rollout was stopped or rolled
	// back. If the channel returns to this rollout's version afterwards, the publisher creates another Rollout.
	// +optional
	ReleasedAt *metav1.Time `json:"releasedAt,omitempty"`
	// VersionWithoutPolicy is the version that all runtimes received at once, because no RolloutPolicy applied after
	// this rollout ended. The next Rollout starts from this version.
	// +optional
	VersionWithoutPolicy string `json:"versionWithoutPolicy,omitempty"`
	// EstimatedEnd is the estimated end of the rollout at its current pace, to the minute.
	// +optional
	EstimatedEnd *metav1.Time `json:"estimatedEnd,omitempty"`
}

// WaveStatus is the observed state of a wave.
type WaveStatus struct {
	Name string `json:"name"`
	// +optional
	State WaveState `json:"state,omitempty"`
	// Place defines the runtimes in a wave that selects by percent or count. Each runtime has a hash value, and the
	// wave contains the runtimes with a value up to Place that no earlier wave contains. The publisher sets Place
	// before the first wave starts and never changes it afterwards. Unset if the wave's field all is true.
	// +optional
	Place *int64 `json:"place,omitempty"`
	// All is true for a wave that contains every runtime that no earlier wave selects.
	// +optional
	All bool `json:"all,omitempty"`
	// +optional
	Total int32 `json:"total,omitempty"`
	// +optional
	Updated int32 `json:"updated,omitempty"`
	// InFlight is the number of runtimes with the version in their bundle that have not reported an outcome yet.
	// +optional
	InFlight int32 `json:"inFlight,omitempty"`
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// +optional
	Deferred int32 `json:"deferred,omitempty"`
	// WaitsForDeferred is true while the wave waits only because more runtimes are deferred than maxDeferred allows.
	// The wave continues once fewer runtimes are deferred, or once spec.approvedDeferredWaves contains the wave.
	// +optional
	WaitsForDeferred bool `json:"waitsForDeferred,omitempty"`
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// ReadyAt is the time when enough runtimes in the wave were ready and the soak time began.
	// +optional
	ReadyAt *metav1.Time `json:"readyAt,omitempty"`
	// ProvenAt is the time when the wave was proven and the next wave could start.
	// +optional
	ProvenAt *metav1.Time `json:"provenAt,omitempty"`
	// Granted lists the runtimes that the publisher is about to update: it can publish the version to them, but their
	// Kymas' status does not contain the version yet. The list has at most 500 entries.
	// +optional
	Granted []string `json:"granted,omitempty"`
	// Postponed lists at most 500 runtimes that are updated after the wave's other runtimes. A minute after they were
	// postponed, they no longer count toward maxConcurrent. Either the publisher could not publish to them for longer
	// than offlineAfter, or it could not resolve their version.
	// +optional
	Postponed []PostponedRuntime `json:"postponed,omitempty"`
	// Checks summarizes the results of each of the wave's checks, in policy order. A rollback does not change these
	// results.
	// +optional
	Checks []CheckSummary `json:"checks,omitempty"`
}

// CheckSummary summarizes a check's results in the wave's runtimes that have the version.
type CheckSummary struct {
	Name string `json:"name"`
	// Passed, Failed and Inconclusive are the numbers of runtimes with this result. Inconclusive includes runtimes
	// without a result.
	// +optional
	Passed int32 `json:"passed,omitempty"`
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// +optional
	Inconclusive int32 `json:"inconclusive,omitempty"`
	// Median is the median of the measured values. MedianBefore is the median of the values before the upgrade. Both
	// are empty if no values exist. Until the wave is proven, a runtime's value is from the time when the check's
	// result last changed. After that, the value is from the last report before the wave was proven. A Failed check
	// keeps the value that caused the failure.
	// +optional
	Median string `json:"median,omitempty"`
	// +optional
	MedianBefore string `json:"medianBefore,omitempty"`
	// Worst is the highest value, or the lowest value if the check has only min. If the check failed in runtimes, only
	// the values of these runtimes count. WorstRuntime is the runtime with the value in worst. WorstBefore is this
	// runtime's value before the upgrade.
	// +optional
	Worst string `json:"worst,omitempty"`
	// +optional
	WorstBefore string `json:"worstBefore,omitempty"`
	// +optional
	WorstRuntime string `json:"worstRuntime,omitempty"`
}

// PostponedRuntime is a runtime whose update was postponed to the end of its wave.
type PostponedRuntime struct {
	Runtime string `json:"runtime"`
	// Since is the time when the publisher last postponed the runtime's update.
	Since metav1.Time `json:"since"`
}

// RuntimeFailure is one failed runtime.
type RuntimeFailure struct {
	Runtime string `json:"runtime"`
	Wave    string `json:"wave"`
	Reason  string `json:"reason"`
	// Check is the name of the failed check. It is unset if the runtime failed for another reason.
	// +optional
	Check string `json:"check,omitempty"`
}

// RolloutState is the state of a rollout.
// +kubebuilder:validation:Enum="";Progressing;Paused;Waiting;Stopped;RollingBack;RolledBack;Superseded;Succeeded
type RolloutState string

// States of a rollout.
const (
	// RolloutProgressing means that runtimes are updated wave by wave.
	RolloutProgressing RolloutState = "Progressing"
	// RolloutPaused means that spec.paused is set, so no further runtime is updated.
	RolloutPaused RolloutState = "Paused"
	// RolloutWaiting means that the rollout waits for approval or for a corrected spec.
	RolloutWaiting RolloutState = "Waiting"
	// RolloutStopped means that failures or spec.abort ended the rollout. Runtimes keep their version.
	RolloutStopped RolloutState = "Stopped"
	// RolloutRollingBack means that runtimes are being rolled back to their last good version.
	RolloutRollingBack RolloutState = "RollingBack"
	// RolloutRolledBack means that the rollout ended and its runtimes were rolled back to their last good version.
	RolloutRolledBack RolloutState = "RolledBack"
	// RolloutSuperseded means that a newer rollout for the same module and channel replaced this rollout.
	RolloutSuperseded RolloutState = "Superseded"
	// RolloutSucceeded means that all waves are proven.
	RolloutSucceeded RolloutState = "Succeeded"
)

// WaveState is the state of a wave.
// +kubebuilder:validation:Enum=Pending;Waiting;Progressing;Soaking;Proven;Failed
type WaveState string

// States of a wave.
const (
	// WavePending means that an earlier wave is not proven yet.
	WavePending WaveState = "Pending"
	// WaveWaiting means that the wave waits for its approval.
	WaveWaiting WaveState = "Waiting"
	// WaveProgressing means that the wave's runtimes are being updated.
	WaveProgressing WaveState = "Progressing"
	// WaveSoaking means that the wave's runtimes have the version and are watched during the soak time.
	WaveSoaking WaveState = "Soaking"
	// WaveProven means that the next wave can start.
	WaveProven WaveState = "Proven"
	// WaveFailed means that more of the wave's runtimes failed than its policy allows.
	WaveFailed WaveState = "Failed"
)
