package train

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// waitingSince returns the start of a version's waiting time in a channel. The waiting time starts at the time in the
// policy's status, or now for a new version. If a Rollout of the version succeeded later, the waiting time starts at
// the end of that Rollout. It also starts at the end of an earlier Rollout if the status has never contained the
// channel. If the channel was removed and added again, its recorded pauses are lost, so the waiting time starts now.
func (c *chain) waitingSince(channel, version string) metav1.Time {
	newest := rollout.NewestRollout(c.rollouts[rollout.Track{Module: c.module, Channel: channel}])
	var proven *metav1.Time
	if newest != nil && newest.Spec.To == version && newest.Status.State == fleet.RolloutSucceeded {
		proven = newest.Status.FinishedAt
	}
	since := roundUp(c.Now)
	switch recorded := c.recordedVersion(channel); {
	case recorded != nil && recorded.Version == version:
		since = recorded.Since
	case recorded == nil && !c.isRemoved(channel) && proven != nil && proven.Time.Before(c.Now):
		return *proven
	}
	if proven != nil && proven.After(since.Time) {
		return *proven
	}
	return since
}

// isRemoved reports whether the policy's status contains the channel as a channel without a version.
func (c *chain) isRemoved(channel string) bool {
	return slices.ContainsFunc(c.previous.Removed, func(r fleet.RemovedVersion) bool { return r.Channel == channel })
}

func (c *chain) recordedVersion(channel string) *fleet.TrainVersion {
	for i := range c.previous.Versions {
		if c.previous.Versions[i].Channel == channel {
			return &c.previous.Versions[i]
		}
	}
	return nil
}

// roundUp returns a time in whole seconds, as in the API. It rounds up, so that versions are never promoted too early.
func roundUp(now time.Time) metav1.Time {
	at := now.UTC().Truncate(time.Second)
	if at.Before(now) {
		at = at.Add(time.Second)
	}
	return metav1.NewTime(at)
}

// maxRejected limits the number of rejected versions per module in the policy's status.
const maxRejected = 20

// rejectedVersions returns the versions that must not be promoted. A version is rejected if its rollout was stopped or
// rolled back in any channel, or if a channel was set back from it to an older version. The rejections of all policies
// apply, so that a new policy does not promote the versions that another policy rejected.
func (c *chain) rejectedVersions() []fleet.RejectedVersion {
	all := slices.Clone(c.previous.Rejected)
	add := func(version, channel, message string) {
		if !slices.ContainsFunc(all, func(r fleet.RejectedVersion) bool { return r.Version == version }) {
			all = append(all, fleet.RejectedVersion{Version: version, Channel: channel, Message: truncate(message, 300)})
		}
	}
	for _, other := range c.records[c.module] {
		for _, r := range other.Rejected {
			add(r.Version, r.Channel, r.Message)
		}
		for _, had := range lastVersions(other) {
			if has := channelVersion(c.meta, had.Channel); bundle.IsOlder(has, had.Version) {
				add(had.Version, had.Channel,
					fmt.Sprintf("channel %s was set back from %s to %s", had.Channel, had.Version, has))
			}
		}
	}
	for _, r := range c.moduleRollouts[c.module] {
		if why := rejectionReason(r); why != "" {
			add(r.Spec.To, r.Spec.Channel, why)
		}
	}
	slices.SortFunc(all, func(a, b fleet.RejectedVersion) int {
		switch {
		case bundle.IsOlder(a.Version, b.Version):
			return -1
		case bundle.IsOlder(b.Version, a.Version):
			return 1
		}
		return strings.Compare(a.Version, b.Version)
	})
	return all[max(0, len(all)-maxRejected):]
}

// rejectionReason returns the reason why a rollout rejects its version, or "".
func rejectionReason(r *fleet.Rollout) string {
	switch ended := r.Status.State; {
	case ended == fleet.RolloutStopped, ended == fleet.RolloutRollingBack, ended == fleet.RolloutRolledBack:
		return fmt.Sprintf("rollout %s in channel %s is %s: %s", r.Name, r.Spec.Channel, ended, r.Status.Message)
	case r.Spec.Undo, r.Spec.Abort && !rollout.IsFinished(ended):
		return fmt.Sprintf("an operator stopped rollout %s in channel %s", r.Name, r.Spec.Channel)
	}
	return ""
}

// lastVersions returns the recorded version of each channel, including channels that do not have a version now.
func lastVersions(recorded fleet.ModuleTrain) []fleet.RemovedVersion {
	all := slices.Clone(recorded.Removed)
	for _, v := range recorded.Versions {
		all = append(all, fleet.RemovedVersion{Channel: v.Channel, Version: v.Version})
	}
	return all
}

// removedVersions returns the last version of each channel that does not have a version now. If such a channel later
// gets an older version, the last version is rejected.
func (c *chain) removedVersions() []fleet.RemovedVersion {
	if c.meta == nil {
		return c.previous.Removed
	}
	var removed []fleet.RemovedVersion
	for _, last := range lastVersions(c.previous) {
		if channelVersion(c.meta, last.Channel) == "" {
			removed = append(removed, last)
		}
	}
	return removed[max(0, len(removed)-maxRejected):]
}

func setCondition(status *fleet.PromotionPolicyStatus, generation int64, problems, missing []string, now time.Time) {
	ready := metav1.Condition{
		Type:               fleet.ConditionReady,
		Status:             metav1.ConditionTrue,
		Reason:             fleet.PolicyEvaluated,
		ObservedGeneration: generation,
		Message:            "the policy is in effect",
		LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}
	if len(missing) > 0 {
		ready.Reason, ready.Message = fleet.PolicyModulesMissing,
			truncate("no ModuleReleaseMeta found for modules: "+strings.Join(missing, ", "), 1000)
	}
	if len(problems) > 0 {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, fleet.PolicyInvalid,
			truncate(strings.Join(problems, "; "), 1000)
	}
	meta.SetStatusCondition(&status.Conditions, ready)
}

// Record adds a promotion to the policy's status, so that the publisher can detect later that a channel was set back to
// an older version.
func (o *Outcome) Record(p Promotion, now time.Time) {
	at := roundUp(now)
	o.Status.LastPromotion = &at
	for i := range o.Status.Modules {
		if o.Status.Modules[i].Name != p.Module {
			continue
		}
		for j := range o.Status.Modules[i].Versions {
			switch entry := &o.Status.Modules[i].Versions[j]; entry.Channel {
			case p.From:
				*entry = fleet.TrainVersion{
					Channel: p.From,
					Version: p.Version,
					Since:   entry.Since,
					Reason:  fleet.WaitPromoted,
				}
			case p.To:
				*entry = fleet.TrainVersion{
					Channel: p.To,
					Version: p.Version,
					Since:   at,
					Reason:  fleet.WaitTimeNotReached,
				}
				if last := o.Policy.Spec.Channels; last[len(last)-1].Name == p.To {
					entry.Reason = fleet.WaitArrived
				} else {
					entry.PausedAt = &at // no runtime has the version yet
				}
			}
		}
	}
}

// Fail sets a condition in the policy's status after the publisher failed to promote a version.
func (o *Outcome) Fail(p Promotion, err error, now time.Time) {
	failed := metav1.Condition{
		Type:               fleet.ConditionReady,
		Status:             metav1.ConditionFalse,
		Reason:             fleet.PolicyPromotionFailed,
		ObservedGeneration: o.Policy.Generation,
		Message: truncate(fmt.Sprintf("promote module %s to %s in channel %s: %v", p.Module, p.Version, p.To, err),
			1000),
		LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}
	// If the previous promotion failed, too, keep the condition's transition time.
	was := meta.FindStatusCondition(o.Policy.Status.Conditions, failed.Type)
	if was != nil && was.Status == failed.Status {
		failed.LastTransitionTime = was.LastTransitionTime
	}
	meta.SetStatusCondition(&o.Status.Conditions, failed)
}
