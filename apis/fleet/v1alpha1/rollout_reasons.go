package v1alpha1

// Conditions of a Rollout. Their reason is its state.
const (
	// ConditionReady is True on a Rollout once it has brought the version to everybody, or another one came after it.
	ConditionReady = "Ready"
	// ConditionStalled is True on a Rollout that was stopped, or that has taken its version back; it is absent otherwise.
	ConditionStalled = "Stalled"
)

// Reasons of Events on Rollouts and RolloutPolicies.
const (
	// ReasonRolloutBegun is of an Event on a Rollout that was made. The message names module, versions, channel and
	// policy.
	ReasonRolloutBegun = "RolloutBegun"
	// ReasonWaveStarted is of an Event on a Rollout: a wave that has runtimes begins. The message names it.
	ReasonWaveStarted = "WaveStarted"
	// ReasonWaveProven is of an Event on a Rollout: a wave that has runtimes is proven, so that the next one may start.
	// The message counts what is updated, failed and deferred.
	ReasonWaveProven = "WaveProven"
	// ReasonOfflineAfterTooShort is of an Event of type Warning on a RolloutPolicy: its offlineAfter counts runtimes that
	// work as offline.
	ReasonOfflineAfterTooShort = "OfflineAfterTooShort"

	// ReasonRolloutProgressing is of an Event: the Rollout goes on after it was paused or waited.
	ReasonRolloutProgressing = reasonOfState + string(RolloutProgressing)
	// ReasonRolloutPaused is of an Event: the Rollout was paused by its spec.
	ReasonRolloutPaused = reasonOfState + string(RolloutPaused)
	// ReasonRolloutWaiting is of an Event: the Rollout waits for an approval, or for something in its spec to be
	// corrected. The message says which.
	ReasonRolloutWaiting = reasonOfState + string(RolloutWaiting)
	// ReasonRolloutStopped is of an Event of type Warning: the Rollout was stopped for failures or aborted. Runtimes keep
	// what they have.
	ReasonRolloutStopped = reasonOfState + string(RolloutStopped)
	// ReasonRolloutRollingBack is of an Event of type Warning: the Rollout gives runtimes their last good version back.
	ReasonRolloutRollingBack = reasonOfState + string(RolloutRollingBack)
	// ReasonRolloutRolledBack is of an Event: the Rollout has given all last good versions back.
	ReasonRolloutRolledBack = reasonOfState + string(RolloutRolledBack)
	// ReasonRolloutSuperseded is of an Event: a newer promotion of the module in the channel took the place of the
	// Rollout.
	ReasonRolloutSuperseded = reasonOfState + string(RolloutSuperseded)
	// ReasonRolloutSucceeded is of an Event: the last wave of the Rollout is proven.
	ReasonRolloutSucceeded = reasonOfState + string(RolloutSucceeded)
)

// reasonOfState begins the reasons of Events that tell a new state.
const reasonOfState = "Rollout"

// Reason is that of the Event which tells that a rollout came into the state.
func (s RolloutState) Reason() string { return reasonOfState + string(s) }
