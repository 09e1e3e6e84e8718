package rollout

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// Runtime contains the state of a runtime that follows the module's channel.
type Runtime struct {
	ID string
	// Labels contains the labels of the runtime's Kyma in the control plane.
	Labels map[string]string
	// LastReport is the time of the runtime's last report.
	LastReport silence.LastReport
	// Unpublishable is true if the publisher cannot publish a new bundle to the runtime. UnpublishableSince is the time
	// at which this problem started.
	Unpublishable      bool
	UnpublishableSince time.Time
	// UnresolvedVersion is a version that the publisher could not resolve for the runtime, or empty. It is the promoted
	// version or the version that a rollback must restore. Message then contains the reason.
	UnresolvedVersion string
	// Version is the module's version in the newest published bundle. It is empty if that bundle does not contain the
	// module.
	Version string
	// Selection contains the rollout that selected Version and the reported results. It is nil if no rollout selected
	// Version.
	Selection *v1beta2.GivenVersion
	// IsCurrent is true if the last report is about the newest bundle and contains the module in Version. If a rollout
	// selected Version, the bundle must also match the reported generation of the runtime's Kyma. State and Message are
	// the module's state and message in that report. State is only valid if IsCurrent is true. Message is also valid if
	// UnresolvedVersion is set.
	IsCurrent bool
	State     v1beta2.State
	Message   string
	// WaitsForWindow is true if the runtime waits for its maintenance window.
	WaitsForWindow bool
	// LacksChecks is true if the runtime's agent does not support checks.
	LacksChecks bool
	// RemovalDecidedAt is the time at which the publisher allowed a removal or began to wait for its approval.
	// RemovalHeld is true while the removal waits for an operator's approval.
	RemovalDecidedAt time.Time
	RemovalHeld      bool
}

func (r *Runtime) wasReady() bool {
	return r.Selection != nil && r.Selection.Ready || r.IsCurrent && r.State == v1beta2.StateReady
}

// PlanInput contains the inputs of Plan other than the rollout and its runtimes.
type PlanInput struct {
	// NewerRollout is the name of a newer rollout of the same track. It is empty for the newest rollout.
	NewerRollout string
	// ChannelVersion is the version in the channel now. It can differ from the rollout's promoted version.
	ChannelVersion string
	// IsProven is true if an earlier rollout has already proved the promoted version.
	IsProven bool
	Now      time.Time

	// places caches the results of hashPlace. It can be nil.
	places placeCache
}

// placeCache maps a policy and a runtime to the result of hashPlace.
type placeCache map[string]map[string]int64

// Decision is the version of the module that a rollout allows in a runtime.
type Decision struct {
	// Version is the allowed version, or empty if the runtime must not get the module yet.
	Version string
	// ReplacedVersion is the version that a rollback replaces with the older one in Version. It is empty if the
	// Decision is not a rollback.
	ReplacedVersion string
	// HeldReason is the reason why the runtime does not get the promoted version, or empty.
	HeldReason string
	// TriedVersion is the promoted version if the publisher could not resolve it for the runtime. The publisher tries
	// to resolve it in addition to Version, to find out when the problem is solved. Otherwise, TriedVersion is empty.
	TriedVersion string
	// Checks is the number of the wave whose checks the runtime gets together with Version. The first wave has the
	// number 1. If Checks is 0, the runtime keeps its current checks.
	Checks int
}

// Step is the result of Plan: the rollout's next status and the decisions about its runtimes.
type Step struct {
	Status fleet.RolloutStatus
	// Decisions contains a Decision for each runtime, in the order of the runtimes. It is nil if the rollout has
	// succeeded or was superseded.
	Decisions []Decision
	// AwaitsReport is true for each runtime whose report the rollout is waiting for, in the order of the runtimes.
	AwaitsReport []bool

	// isFromUnproven is the result of plan.isFromUnproven.
	isFromUnproven bool
}

// IsFinished reports whether a rollout in this state has ended. An ended rollout changes only if it is rolled back.
func IsFinished(state fleet.RolloutState) bool {
	switch state {
	case fleet.RolloutStopped, fleet.RolloutRolledBack, fleet.RolloutSuperseded, fleet.RolloutSucceeded:
		return true
	}
	return false
}

// HasEnded reports whether a Rollout has ended and the publisher has handled its undo, if an operator requested one.
func HasEnded(r *fleet.Rollout) bool {
	isReversible := r.Status.State == fleet.RolloutSucceeded || r.Status.State == fleet.RolloutStopped
	isUndoPending := r.Spec.Undo && isReversible && r.Status.ObservedGeneration < r.Generation
	return IsFinished(r.Status.State) && !isUndoPending
}

// hasSucceeded reports whether a Rollout has succeeded and no operator has undone it.
func hasSucceeded(r *fleet.Rollout) bool {
	return r.Status.State == fleet.RolloutSucceeded && !r.Spec.Undo
}

// plan computes one Step of a rollout.
type plan struct {
	name    string
	spec    fleet.RolloutSpec
	status  fleet.RolloutStatus
	input   PlanInput
	members []member
	waves   []wave
	// previousState and previousMilestones are the rollout's state and milestones before this step.
	previousState      fleet.RolloutState
	previousMilestones milestones
	// isDowngrade is true if the promoted version is older than the last good version. Runtimes with the last good
	// version then keep that version.
	isDowngrade bool
	// unreturned describes the runtimes that a rollback cannot return to their last version, because this version
	// cannot be resolved.
	unreturned []string
}

// milestones contains the values in a rollout's status that change its estimated end.
type milestones struct {
	state                                 fleet.RolloutState
	total, updated, failed, deferred      int32
	startedWaves, readyWaves, provenWaves int
}

// isActive reports whether the rollout can still update runtimes: it has not ended and is not rolling back.
func (p *plan) isActive() bool {
	return !IsFinished(p.status.State) && p.status.State != fleet.RolloutRollingBack
}

func (p *plan) isRollingBack() bool {
	return p.status.State == fleet.RolloutRollingBack || p.status.State == fleet.RolloutRolledBack
}

// isFromUnproven reports whether the last good version must not replace older versions, because no known rollout proved
// it. If the rollout was rolled back and the channel has the last good version again, an operator has selected this
// version for all runtimes.
func (p *plan) isFromUnproven() bool {
	isChosen := p.status.State == fleet.RolloutRolledBack && p.input.ChannelVersion == p.spec.From
	return p.spec.FromUnproven && !isChosen
}

// isAccepted reports whether an operator approved a wave regardless of its checks. It returns false if the wave also
// needs approval to start, because that approval was given before the checks ran.
func (p *plan) isAccepted(wave int) bool {
	return wave >= 0 && !p.spec.Waves[wave].Approval && slices.Contains(p.spec.ApprovedWaves, p.spec.Waves[wave].Name)
}

// currentTime returns the current time in whole seconds, as in the API. It rounds up, so that a soak time is never too
// short.
func (p *plan) currentTime() metav1.Time {
	now := p.input.Now.UTC().Truncate(time.Second)
	if now.Before(p.input.Now) {
		now = now.Add(time.Second)
	}
	return metav1.NewTime(now)
}

// startTime returns the time when the rollout started. Before the first step, it returns the current time.
func (p *plan) startTime() time.Time {
	if p.status.StartedAt != nil {
		return p.status.StartedAt.Time
	}
	return p.input.Now
}

// isReportUnread reports whether another publisher may have received a report from the runtime that is not in the
// Kyma's status yet. A rollout waits for such a report, but not longer than offlineAfter.
func (p *plan) isReportUnread(r *Runtime) bool {
	return r.LastReport.MayArrive(p.spec.OfflineAfter.Duration, p.input.Now)
}

// memberState is the state of a runtime in a rollout.
type memberState int

const (
	// The runtime has the promoted version or a newer one that this rollout did not install.
	unaffected memberState = iota
	// The runtime does not have the promoted version yet.
	waiting
	// The runtime does not have the promoted version yet. It is silent, or the publisher cannot publish to it.
	silent
	// The runtime's bundle contains the promoted version, but the runtime has not reported whether the module works.
	inFlight
	// The runtime does not have the promoted version yet, because its agent does not support checks.
	outdated
	// The runtime does not have the promoted version yet, because the version cannot be resolved for it.
	unresolved
	// The module is ready in the promoted version, but not all checks have passed.
	measuring
	// The runtime reported the module as ready in the promoted version, and all checks have passed.
	updated
	// The runtime reported a failure, or the module was not ready in time.
	failed
	// The runtime's bundle contains the promoted version, but the runtime is silent or waits for its maintenance
	// window.
	deferred
	// The runtime has returned to the last good version.
	reverted
)

type member struct {
	place int64
	wave  int // index of the runtime's wave, or -1
	state memberState
	// isSelected is true if this rollout selected the runtime's current version.
	isSelected bool
	// mustReturn is true if a rollback of this rollout returns the runtime: isSelected is true, or one of the
	// rollout's predecessors updated the runtime.
	mustReturn bool
	isGranted  bool
	// isWorking is true if an unaffected runtime has the promoted version, the module is ready, and all checks of the
	// runtime's wave have passed.
	isWorking bool
	// isQuiet is true if the runtime is silent or has never reported.
	isQuiet bool
	// isUncertain is true if the runtime looks silent but another publisher may have received a newer report.
	isUncertain bool
	reason      string // reason for the state failed
	failedCheck string // name of the check that caused the state failed, or empty
	// uncheckedMessage describes the checks that have not passed, or is empty.
	uncheckedMessage string
}

// definedCheck is a check with its DefinitionID.
type definedCheck struct {
	fleet.Check
	definition string
}

// wave counts a wave's runtimes by state.
type wave struct {
	selector labels.Selector // nil for a wave with a percentage or a count
	checks   []definedCheck
	// total is the number of the wave's runtimes, except unaffected ones. The other fields count these runtimes by
	// state.
	total, updated, inFlight, failed, deferred int
	// newCount counts the runtimes that do not have the module yet.
	newCount int
	// unaffected counts the runtimes that have the promoted version or a newer one, but not because of this rollout.
	// working counts the unaffected runtimes in which the promoted version works.
	unaffected, working int
	// workingSince is the latest time at which one of the working runtimes was updated, or zero.
	workingSince time.Time
	// unreadCount counts the runtimes in updated and measuring whose reports this publisher has not read since it
	// started.
	unreadCount int
	// unchecked describes the runtimes whose checks have not passed. measuring counts the runtimes whose module is
	// ready but whose checks have not all passed. overdue counts the runtimes in measuring that have run the checks
	// for the configured time. outdated counts the runtimes whose agents do not support checks.
	unchecked                    []string
	measuring, outdated, overdue int
	// failedEarlier describes the runtimes that got the promoted version from another rollout and failed. It is empty
	// if maxFailures allows that many failures.
	failedEarlier []string
	// failedChecks lists the failed checks and their runtimes.
	failedChecks []failedCheckOf
	// unresolved describes the runtimes that cannot get the version because the publisher cannot resolve it for them.
	// deferred includes these runtimes.
	unresolved []string
	// unapproved counts the runtimes in which the removal waits for an operator's approval.
	unapproved int
	// substitutes is only set for a wave without runtimes.
	substitutes substitutes
	// reachable contains the indexes of the runtimes that wait for the version and can get it now.
	reachable []int

	// minReady and maxConcurrent are -1 if the wave does not set them.
	minReady, maxFailures, maxDeferred, maxConcurrent int
}

type failedCheckOf struct {
	runtime string
	outcome v1beta2.CheckOutcome
}

// substitutes counts the runtimes of earlier waves that an empty wave would select, too.
type substitutes struct {
	// total includes the runtimes in shown and pending.
	total int
	// shown counts the runtimes in which the promoted version has worked for the soak time of their own wave.
	shown int
	// pending counts the runtimes that can still show that the version works.
	pending int
}
