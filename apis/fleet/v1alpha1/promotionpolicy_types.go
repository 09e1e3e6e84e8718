package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PromotionPolicy promotes versions of the selected modules through a chain of channels, from each channel to the next.
// If several policies promote a module to the same channel, the policy whose name sorts first applies.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=promotionpolicies,categories=kyma-pull
// +kubebuilder:printcolumn:name="Modules",type=string,JSONPath=".spec.modules"
// +kubebuilder:printcolumn:name="Hold",type=boolean,JSONPath=".spec.hold"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].status"
// +kubebuilder:printcolumn:name="Last Promotion",type=date,JSONPath=".status.lastPromotion"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].message"
type PromotionPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PromotionPolicySpec   `json:"spec"`
	Status PromotionPolicyStatus `json:"status,omitempty"`
}

// PromotionPolicyList is a list of PromotionPolicies.
//
// +kubebuilder:object:root=true
type PromotionPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PromotionPolicy `json:"items"`
}

// PromotionPolicySpec selects modules and defines the chain of channels.
type PromotionPolicySpec struct {
	// Modules lists the modules that the policy applies to. If empty, the policy applies to all modules.
	// +optional
	// +kubebuilder:validation:MaxItems:=300
	// +kubebuilder:validation:items:MaxLength:=64
	// +listType=set
	Modules []string `json:"modules,omitempty"`
	// Channels lists the channels in the chain, in promotion order. A version is promoted to the next channel once it
	// meets the conditions of its current channel.
	// +kubebuilder:validation:MinItems:=2
	// +kubebuilder:validation:MaxItems:=5
	// +listType=map
	// +listMapKey=name
	Channels TrainChannels `json:"channels"`
	// Calendar restricts when promotions can happen. If unset, a promotion can happen at any time.
	// +optional
	Calendar *PromotionCalendar `json:"calendar,omitempty"`
	// Hold stops all of the policy's promotions. To hold one version, set the annotation or label
	// kyma-pull.dev/hold-promotion on its ModuleTemplate.
	// +optional
	Hold bool `json:"hold,omitempty"`
	// PromoteBy selects how versions are promoted. With Publisher, the publisher edits ModuleReleaseMetas, except those
	// that were applied from a Git commit. With Command, an operator or a CI job runs `kcp-publisher train promote`.
	// +kubebuilder:default:=Publisher
	PromoteBy PromoteBy `json:"promoteBy,omitempty"`
}

// PromoteBy selects how versions are promoted.
// +kubebuilder:validation:Enum=Publisher;Command
type PromoteBy string

// PromoteByPublisher means that the publisher edits ModuleReleaseMetas. PromoteByCommand means that an operator or a CI
// job runs `kcp-publisher train promote`.
const (
	PromoteByPublisher PromoteBy = "Publisher"
	PromoteByCommand   PromoteBy = "Command"
)

// TrainChannels lists a PromotionPolicy's channels in promotion order.
//
// +kubebuilder:validation:XValidation:rule="self.exists_one(c, !has(c.after))",message="only the last can omit after"
// +kubebuilder:validation:XValidation:rule="!has(self[size(self)-1].after)",message="after: not for the last channel"
type TrainChannels []TrainChannel

// TrainChannel is a channel in the chain, with the conditions for a promotion to the next channel.
type TrainChannel struct {
	// +kubebuilder:validation:Pattern:=^[a-z]+$
	// +kubebuilder:validation:MaxLength:=32
	// +kubebuilder:validation:MinLength:=3
	Name string `json:"name"`
	// After is the time, such as 168h, that at least minRuntimes runtimes in the channel must run the version before
	// its promotion. The time begins when the channel has the version or, with a RolloutPolicy, when the Rollout has
	// succeeded. It pauses while fewer than minRuntimes runtimes are ready with the version.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be more than 0"
	// +kubebuilder:validation:Type:=string
	// +kubebuilder:validation:MaxLength:=20
	// +kubebuilder:validation:Pattern:=`^(0|([0-9]{1,6}(\.[0-9]{1,9})?(h|m|s|ms|us|ns))+)$`
	After *metav1.Duration `json:"after,omitempty"`
	// MinRuntimes is the minimum number of runtimes in the channel that must report the version as ready for the time
	// in after.
	// +kubebuilder:default:=1
	// +kubebuilder:validation:Minimum:=1
	MinRuntimes int32 `json:"minRuntimes,omitempty"`
	// MaxFailurePercent is the maximum percentage of failed runtimes among the runtimes that reported the version as
	// ready or failed: with 5, a version with 5% failed runtimes is promoted. The percentage includes failures in the
	// channel's Rollout.
	// +optional
	// +kubebuilder:validation:Minimum:=0
	// +kubebuilder:validation:Maximum:=99
	MaxFailurePercent int32 `json:"maxFailurePercent,omitempty"`
	// FailuresBelowPercent is like maxFailurePercent, but the percentage must be less than this value: with 5, a
	// version with 5% failed runtimes is not promoted. If this field is set, maxFailurePercent has no effect.
	// +optional
	// +kubebuilder:validation:Minimum:=1
	// +kubebuilder:validation:Maximum:=100
	FailuresBelowPercent int32 `json:"failuresBelowPercent,omitempty"`
}

// PromotionCalendar defines the times at which the policy makes no promotions.
type PromotionCalendar struct {
	// TimeZone is the calendar's time zone, as a name in the IANA database such as Europe/Berlin.
	// +kubebuilder:default:=UTC
	// +kubebuilder:validation:MinLength:=1
	// +kubebuilder:validation:MaxLength:=64
	// +kubebuilder:validation:XValidation:rule="self != 'Local'",message="must be the name of a time zone"
	// +kubebuilder:validation:XValidation:rule="timestamp(0).getHours(self) >= 0",message="must be a time zone"
	TimeZone string `json:"timeZone,omitempty"`
	// NotOn lists the days of the week without promotions.
	// +optional
	// +kubebuilder:validation:MaxItems:=6
	// +listType=set
	NotOn []Weekday `json:"notOn,omitempty"`
	// Freezes lists periods without promotions.
	// +optional
	// +kubebuilder:validation:MaxItems:=50
	// +listType=map
	// +listMapKey=name
	Freezes []Freeze `json:"freezes,omitempty"`
}

// Weekday is a day of the week.
// +kubebuilder:validation:Enum=Mon;Tue;Wed;Thu;Fri;Sat;Sun
type Weekday string

// Freeze is a period without promotions. Its start and end are local times in the calendar's time zone.
//
// +kubebuilder:validation:XValidation:rule="self.from < self.until",message="until must be after from"
// +kubebuilder:validation:XValidation:rule="self.until != self.from + ':00'",message="until must be after from"
// +kubebuilder:validation:XValidation:rule="self.until != self.from + 'T00:00'",message="until must be after from"
// +kubebuilder:validation:XValidation:rule="self.until != self.from + 'T00:00:00'",message="until must be after from"
type Freeze struct {
	// +kubebuilder:validation:MinLength:=1
	// +kubebuilder:validation:MaxLength:=63
	Name string `json:"name"`
	// From is the beginning of the period: a date such as 2026-12-18, or a local time such as 2026-12-18T17:00.
	// +kubebuilder:validation:Pattern:=`^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2})?)?$`
	// +kubebuilder:validation:MaxLength:=19
	From string `json:"from"`
	// Until is the end of the period, in the same format as from. Promotions are possible again from this time on.
	// +kubebuilder:validation:Pattern:=`^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2})?)?$`
	// +kubebuilder:validation:MaxLength:=19
	Until string `json:"until"`
}

// PromotionPolicyStatus is the observed state of a PromotionPolicy. It records when each version reached its channel,
// because the channel's duration "after" counts from this time. If the status is lost, the duration starts again for
// versions without a Rollout.
type PromotionPolicyStatus struct {
	// ObservedGeneration is the spec generation that the status refers to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions contains the condition Ready. It is True while the policy is in effect, and False if the policy cannot
	// be evaluated or a promotion failed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// LastPromotion is the time when the publisher last promoted a version for this policy.
	// +optional
	LastPromotion *metav1.Time `json:"lastPromotion,omitempty"`
	// Modules lists the selected modules with their versions, sorted by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Modules []ModuleTrain `json:"modules,omitempty"`
}

// ModuleTrain lists one module's versions in the policy's channels.
type ModuleTrain struct {
	Name string `json:"name"`
	// Versions lists each channel's version, in chain order.
	// +optional
	// +listType=map
	// +listMapKey=channel
	Versions []TrainVersion `json:"versions,omitempty"`
	// Rejected lists the module's latest versions that were rolled back in any channel, at most 20. The list includes
	// versions that other policies rejected. The policy does not promote the versions in the list.
	// +optional
	// +listType=map
	// +listMapKey=version
	Rejected []RejectedVersion `json:"rejected,omitempty"`
	// Removed lists the last versions of channels whose entry in the ModuleReleaseMeta was removed, at most 20. If such
	// a channel gets an older version later, its last version in this list is rejected.
	// +optional
	// +listType=map
	// +listMapKey=channel
	Removed []RemovedVersion `json:"removed,omitempty"`
}

// TrainVersion is a version in one of the chain's channels.
type TrainVersion struct {
	Channel string `json:"channel"`
	Version string `json:"version"`
	// Since is the start of the channel's duration "after": the time when the channel got the version or, with a
	// RolloutPolicy, when the version's Rollout in the channel succeeded.
	Since metav1.Time `json:"since"`
	// ReadySince replaces since as the start of the duration "after" if fewer than minRuntimes runtimes were ready for
	// some time after since. Each such period moves readySince forward by its length.
	// +optional
	ReadySince *metav1.Time `json:"readySince,omitempty"`
	// PausedAt is the start of the current period with fewer than minRuntimes ready runtimes. Unset while enough
	// runtimes are ready.
	// +optional
	PausedAt *metav1.Time `json:"pausedAt,omitempty"`
	// Reason is the most important reason why the version is not in the next channel.
	Reason WaitReason `json:"reason"`
	// Message lists all reasons why the version is not in the next channel.
	// +optional
	Message string `json:"message,omitempty"`
	// Arrival is the expected time of the promotion to the next channel. Unset if it is unknown.
	// +optional
	Arrival *metav1.Time `json:"arrival,omitempty"`
	// Ready and Failed are the numbers of runtimes in the channel that reported the version as ready and as failed. The
	// publisher updates these numbers only when it changes the reason.
	// +optional
	Ready int32 `json:"ready,omitempty"`
	// +optional
	Failed int32 `json:"failed,omitempty"`
}

// RemovedVersion is the last version of a channel that no longer has a version.
type RemovedVersion struct {
	Channel string `json:"channel"`
	Version string `json:"version"`
}

// RejectedVersion is a version that was rolled back.
type RejectedVersion struct {
	Version string `json:"version"`
	Channel string `json:"channel"`
	// Message describes the rollback.
	Message string `json:"message"`
}

// WaitReason is the reason why a version is not in the chain's next channel.
type WaitReason string

// Reasons why a version is not in the next channel, in the order of their precedence.
const (
	// WaitArrived means that the version is in the last channel.
	WaitArrived WaitReason = "Arrived"
	// WaitPromoted means that the version does not wait, because the next channel already has it.
	WaitPromoted WaitReason = "Promoted"
	// WaitRejected means that the version was rolled back, or its Rollout was stopped, in any channel. The policy never
	// promotes it.
	WaitRejected WaitReason = "Rejected"
	// WaitNotNewer means that the next channel has a newer version.
	WaitNotNewer WaitReason = "NotNewer"
	// WaitChannelMissing means that the ModuleReleaseMeta has no entry for the next channel. An operator must add the
	// channel's first version.
	WaitChannelMissing WaitReason = "ChannelMissing"
	// WaitTemplateMissing means that the version does not have exactly one ModuleTemplate.
	WaitTemplateMissing WaitReason = "TemplateMissing"
	// WaitOtherPolicy means that another PromotionPolicy promotes the module to the next channel.
	WaitOtherPolicy WaitReason = "OtherPolicy"
	// WaitPolicyHeld means that the policy's spec.hold is set.
	WaitPolicyHeld WaitReason = "PolicyHeld"
	// WaitVersionHeld means that the version's ModuleTemplate has the annotation or label kyma-pull.dev/hold-promotion.
	WaitVersionHeld WaitReason = "VersionHeld"
	// WaitFleetUnknown means that the publisher does not know all of the channel's runtimes yet.
	WaitFleetUnknown WaitReason = "FleetUnknown"
	// WaitTooManyFailures means that more runtimes failed than maxFailurePercent or failuresBelowPercent allows.
	WaitTooManyFailures WaitReason = "TooManyFailures"
	// WaitCheckFailed means that one of the version's checks failed in a runtime in the channel.
	WaitCheckFailed WaitReason = "CheckFailed"
	// WaitRolloutActive means that the version's Rollout in the channel has not succeeded yet.
	WaitRolloutActive WaitReason = "RolloutActive"
	// WaitTooFewRuntimes means that fewer runtimes than minRuntimes reported the version as ready.
	WaitTooFewRuntimes WaitReason = "TooFewRuntimes"
	// WaitTimeNotReached means that enough runtimes in the channel have run the version, but not yet for the channel's
	// duration `after`.
	WaitTimeNotReached WaitReason = "TimeNotReached"
	// WaitNextChannelBusy means that the version in the next channel is not promoted yet, or its Rollout is active.
	WaitNextChannelBusy WaitReason = "NextChannelBusy"
	// WaitCalendarClosed means that the calendar does not allow a promotion at this time.
	WaitCalendarClosed WaitReason = "CalendarClosed"
	// WaitDue means that the version can be promoted now. If promoteBy is Command, or if the ModuleReleaseMeta comes
	// from a Git repository, an operator must run `kcp-publisher train promote`.
	WaitDue WaitReason = "Due"
)

// Reasons for the condition Ready of PromotionPolicies, and for Events about promotions.
const (
	// PolicyEvaluated means that the policy is in effect.
	PolicyEvaluated = "Evaluated"
	// PolicyModulesMissing means that the policy is in effect, but modules in its spec have no ModuleReleaseMeta.
	PolicyModulesMissing = "ModulesMissing"
	// PolicyInvalid means that a field of the spec is invalid. The publisher does not promote versions. The message
	// contains the field.
	PolicyInvalid = "Invalid"
	// PolicyPromotionFailed means that the publisher failed to edit a ModuleReleaseMeta. The publisher retries.
	PolicyPromotionFailed = "PromotionFailed"
	// PolicyVersionPromoted is an Event on the policy and the ModuleReleaseMeta: the publisher promoted a version.
	PolicyVersionPromoted = "VersionPromoted"
	// PolicyPromotionDue is an Event on the policy: a version can be promoted, and an operator must run `kcp-publisher
	// train promote`.
	PolicyPromotionDue = "PromotionDue"
	// PolicyPromotionBlocked is a Warning Event on the policy: a version cannot be promoted until an operator acts.
	PolicyPromotionBlocked = "PromotionBlocked"
)
