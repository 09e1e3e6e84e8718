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

// waitingSince returns the start of a version's waiting time in a channel. This is the time in the policy's status, or
// now for a new version. If a Rollout of the version succeeded later, it is the end of that Rollout.
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
	case recorded == nil && proven != nil && proven.Time.Before(c.Now):
		return *proven
	}
	if proven != nil && proven.After(since.Time) {
		return *proven
	}
	return since
}

func (c *chain) recordedVersion(channel string) *fleet.TrainVersion {
	for i := range c.previous.Versions {
		if c.previous.Versions[i].Channel == channel {
			return &c.previous.Versions[i]
		}
	}
	return nil
}

// roundUp returns a time in whole seconds, as in the API. It rounds up, so that no version is promoted too early.
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
// rolled back, or if a channel was set back from it to an older version.
func (c *chain) rejectedVersions() []fleet.RejectedVersion {
	all := slices.Clone(c.previous.Rejected)
	add := func(version, channel, message string) {
		if !slices.ContainsFunc(all, func(r fleet.RejectedVersion) bool { return r.Version == version }) {
			all = append(all, fleet.RejectedVersion{Version: version, Channel: channel, Message: truncate(message, 300)})
		}
	}
	for _, channel := range c.policy.Spec.Channels {
		for _, r := range c.rollouts[rollout.Track{Module: c.module, Channel: channel.Name}] {
			if ended := r.Status.State; ended == fleet.RolloutStopped || ended == fleet.RolloutRollingBack ||
				ended == fleet.RolloutRolledBack {
				add(r.Spec.To, channel.Name,
					fmt.Sprintf("rollout %s in channel %s is %s: %s", r.Name, channel.Name, ended, r.Status.Message))
			} else if r.Spec.Undo ||
				r.Spec.Abort && !rollout.IsFinished(ended) {
				add(r.Spec.To, channel.Name,
					fmt.Sprintf("an operator stopped rollout %s in channel %s", r.Name, channel.Name))
			}
		}
		had, has := c.recordedVersion(channel.Name), channelVersion(c.meta, channel.Name)
		if had != nil && bundle.IsOlder(has, had.Version) {
			add(had.Version, channel.Name,
				fmt.Sprintf("channel %s was set back from %s to %s", channel.Name, had.Version, has))
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

// Record adds a performed promotion to the policy's status, so that the publisher can detect a channel that is set back
// to an older version later.
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
