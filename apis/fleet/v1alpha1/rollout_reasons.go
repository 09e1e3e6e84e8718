package v1alpha1

// Condition types of Rollouts and PromotionPolicies. The reason for each condition on a Rollout is the Rollout's state.
const (
	// ConditionReady is True on a Rollout that has updated all its runtimes or was superseded, and on a
	// PromotionPolicy that is in effect.
	ConditionReady = "Ready"
	// ConditionStalled is True on a Rollout that was stopped or rolled back. The condition is absent otherwise.
	ConditionStalled = "Stalled"
)

// Reasons for Events on Rollouts and RolloutPolicies.
const (
	// ReasonRolloutBegun means that a Rollout was created. The message contains the module, versions, channel and
	// policy.
	ReasonRolloutBegun = "RolloutBegun"
	// ReasonWaveStarted means that the Rollout started a wave that updates at least one runtime. The message contains
	// the wave's name.
	ReasonWaveStarted = "WaveStarted"
	// ReasonWaveProven means that a wave that updated at least one runtime is proven, so the next wave can start. The
	// message contains the numbers of updated, failed and deferred runtimes.
	ReasonWaveProven = "WaveProven"
	// ReasonCheckFailed is a Warning on a Rollout: a check failed in more of a wave's runtimes than before, but the
	// wave's maxFailures allows these failures. The message contains the check, the number of runtimes, and the values.
	ReasonCheckFailed = "CheckFailed"
	// ReasonOfflineAfterTooShort is a Warning on a RolloutPolicy: its offlineAfter makes healthy runtimes count as
	// offline.
	ReasonOfflineAfterTooShort = "OfflineAfterTooShort"

	// ReasonRolloutRefused is a Warning on a RolloutPolicy: a Rollout cannot be created, because the policy is invalid
	// or the API server refuses the Rollout. All runtimes keep their version until the cause is corrected.
	ReasonRolloutRefused = "RolloutRefused"
	// ReasonRolloutProgressing means that the Rollout continues after it was Paused or Waiting.
	ReasonRolloutProgressing = rolloutReasonPrefix + string(RolloutProgressing)
	// ReasonRolloutPaused means that the Rollout is paused because of its spec.paused.
	ReasonRolloutPaused = rolloutReasonPrefix + string(RolloutPaused)
	// ReasonRolloutWaiting means that the Rollout waits for approval or for a corrected spec. The message contains the
	// required action.
	ReasonRolloutWaiting = rolloutReasonPrefix + string(RolloutWaiting)
	// ReasonRolloutStopped is the reason for a Warning Event: failures or an abort stopped the Rollout. Runtimes keep
	// their version.
	ReasonRolloutStopped = rolloutReasonPrefix + string(RolloutStopped)
	// ReasonRolloutRollingBack is the reason for a Warning Event: the Rollout is rolling its runtimes back to their
	// last good version.
	ReasonRolloutRollingBack = rolloutReasonPrefix + string(RolloutRollingBack)
	// ReasonRolloutRolledBack means that the Rollout has rolled back all its runtimes to their last good version.
	ReasonRolloutRolledBack = rolloutReasonPrefix + string(RolloutRolledBack)
	// ReasonRolloutSuperseded means that a newer promotion in the same module and channel replaced the Rollout.
	ReasonRolloutSuperseded = rolloutReasonPrefix + string(RolloutSuperseded)
	// ReasonRolloutSucceeded means that the Rollout's last wave is proven.
	ReasonRolloutSucceeded = rolloutReasonPrefix + string(RolloutSucceeded)
)

// rolloutReasonPrefix is the prefix of the Event reasons for state changes.
const rolloutReasonPrefix = "Rollout"

// Reason returns the reason for the Event that the publisher emits when a Rollout enters the state.
func (s RolloutState) Reason() string { return rolloutReasonPrefix + string(s) }
