package train

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

type chain struct {
	*inputIndex
	policy *fleet.PromotionPolicy
	module string
	// meta is the module's ModuleReleaseMeta. It is nil if the module has none or several.
	meta     *v1beta2.ModuleReleaseMeta
	calendar *calendar
	// invalid describes the problems of the policy's spec, or is empty.
	invalid  string
	previous fleet.ModuleTrain
	next     fleet.ModuleTrain
}

type waitCondition struct {
	reason  fleet.WaitReason
	message string
}

// planModule adds the module's status and due promotions to out. If the module does not have a ModuleReleaseMeta, the
// status keeps the recorded versions and pauses their waiting times. A later call can then detect that a channel was
// set back to an older version.
func (c *chain) planModule(out *Outcome) {
	c.next = fleet.ModuleTrain{Name: c.module, Rejected: c.rejectedVersions(), Removed: c.removedVersions()}
	if c.meta == nil {
		c.next.Versions = pausedVersions(c.previous.Versions, c.Now)
	} else {
		c.planPositions(out)
	}
	if len(c.next.Versions)+len(c.next.Rejected)+len(c.next.Removed) > 0 {
		out.Status.Modules = append(out.Status.Modules, c.next)
	}
}

// pausedVersions returns the versions with a pause of their waiting time. No runtime is known to have a version while
// its module does not have a ModuleReleaseMeta.
func pausedVersions(recorded []fleet.TrainVersion, now time.Time) []fleet.TrainVersion {
	paused := slices.Clone(recorded)
	for i := range paused {
		if paused[i].PausedAt == nil {
			paused[i].PausedAt = new(pauseStart(now))
		}
	}
	return paused
}

func (c *chain) planPositions(out *Outcome) {
	channels := c.policy.Spec.Channels
	// A channel's promotion depends on the state of the next channel, so start with the last channel.
	after := (*fleet.TrainVersion)(nil)
	for i := len(channels) - 1; i >= 0; i-- {
		version := channelVersion(c.meta, channels[i].Name)
		if version == "" {
			after = nil
			continue
		}
		entry := fleet.TrainVersion{
			Channel: channels[i].Name,
			Version: version,
			Since:   c.waitingSince(channels[i].Name, version),
		}
		c.planPosition(&entry, i, after, out)
		c.keepCounts(&entry)
		c.next.Versions = append(c.next.Versions, entry)
		after = &entry
	}
	slices.Reverse(c.next.Versions)
}

// keepCounts keeps the recorded numbers of runtimes until the version or its reason for waiting changes. Otherwise,
// each report could change the policy's status.
func (c *chain) keepCounts(entry *fleet.TrainVersion) {
	had := c.recordedVersion(entry.Channel)
	if had != nil && had.Version == entry.Version && had.Reason == entry.Reason && had.Message == entry.Message {
		entry.Ready, entry.Failed = had.Ready, had.Failed
	}
}

// planPosition decides whether the version in channel i is promoted to the next channel. It either adds the promotion
// to out or sets the reason for waiting in entry, the version's status entry. The parameter after is the entry of the
// next channel.
func (c *chain) planPosition(entry *fleet.TrainVersion, i int, after *fleet.TrainVersion, out *Outcome) {
	channels := c.policy.Spec.Channels
	switch {
	case i == len(channels)-1:
		entry.Reason = fleet.WaitArrived
		return
	case after != nil && after.Version == entry.Version:
		entry.Reason = fleet.WaitPromoted
		return
	}
	to := channels[i+1].Name
	counts, counted := c.channelCounts(entry)
	entry.Ready, entry.Failed = counts.Ready, c.failedCount(entry, counts)
	c.measureReadyTime(entry, counted && entry.Ready >= leastRuntimes(&channels[i]))
	waits := c.finalReasons(entry, to)
	if len(waits) == 0 {
		waits = slices.Concat(c.unresolvedConditions(entry, to, counted),
			c.unmetConditions(entry, &channels[i], counts, counted),
			c.waitingTimeCondition(entry, &channels[i]), c.busyCondition(to, after), c.closedCondition())
	}
	if len(waits) == 0 {
		promotion := Promotion{
			Policy:          c.policy.Name,
			Module:          c.module,
			Meta:            c.meta.Name,
			From:            entry.Channel,
			To:              to,
			PreviousVersion: after.Version,
			Version:         entry.Version,
			ByCommand: c.policy.Spec.PromoteBy == fleet.PromoteByCommand ||
				c.meta.Annotations[v1beta2.AnnotationGitCommit] != "",
		}
		out.Due = append(out.Due, promotion)
		entry.Reason, entry.Message = fleet.WaitDue, promotion.dueMessage()
		return
	}
	entry.Reason, entry.Message = waits[0].reason, joinWaits(waits)
	if at := c.expectedPromotion(entry, &channels[i], to, after, waits); !at.IsZero() {
		entry.Arrival = &metav1.Time{Time: at}
		if out.Next.IsZero() || at.Before(out.Next) {
			out.Next = at
		}
	}
}

func (p Promotion) dueMessage() string {
	if p.ByCommand {
		return fmt.Sprintf("run `kcp-publisher train promote %s` with the flags for the Git repository", p.Policy)
	}
	return "the publisher promotes the version next"
}

// finalReasons returns the reasons why the version will not be promoted to the next channel. They stay valid until an
// operator changes a channel. The parameter to is the name of the next channel.
func (c *chain) finalReasons(entry *fleet.TrainVersion, to string) []waitCondition {
	for _, r := range c.next.Rejected {
		if r.Version == entry.Version {
			return []waitCondition{{fleet.WaitRejected, r.Message}}
		}
	}
	switch has := channelVersion(c.meta, to); {
	case has == "":
		return []waitCondition{
			{
				fleet.WaitChannelMissing,
				fmt.Sprintf("channel %s has no version: add the first one to ModuleReleaseMeta %s", to, c.meta.Name),
			},
		}
	case !bundle.IsOlder(has, entry.Version):
		return []waitCondition{{fleet.WaitNotNewer, fmt.Sprintf("channel %s has %s", to, has)}}
	}
	return nil
}

// unresolvedConditions returns the unmet conditions that only an operator can resolve, and the conditions that cannot
// be evaluated because data is missing.
func (c *chain) unresolvedConditions(entry *fleet.TrainVersion, to string, counted bool) (waits []waitCondition) {
	templates, err := c.findTemplates(c.module, entry.Version)
	switch {
	case err != nil:
		waits = append(waits, waitCondition{fleet.WaitTemplateMissing, err.Error()})
	case len(templates) != 1:
		waits = append(
			waits,
			waitCondition{
				fleet.WaitTemplateMissing,
				fmt.Sprintf("version %s has %d ModuleTemplates, must be exactly 1", entry.Version, len(templates)),
			},
		)
	}
	if owner := c.promotingPolicy(c.module, to); owner != c.policy.Name {
		waits = append(waits, waitCondition{
			fleet.WaitOtherPolicy, fmt.Sprintf("policy %s promotes the module to channel %s", owner, to),
		})
	}
	if c.policy.Spec.Hold || c.invalid != "" {
		why := c.invalid
		if c.policy.Spec.Hold {
			why = "spec.hold is set"
		}
		waits = append(waits, waitCondition{fleet.WaitPolicyHeld, why})
	}
	for _, t := range templates {
		if why, held := holdReason(t); held {
			waits = append(
				waits,
				waitCondition{
					fleet.WaitVersionHeld,
					fmt.Sprintf("ModuleTemplate %s holds the version: %s", t.Name, truncate(why, 200)),
				},
			)
			break
		}
	}
	if !counted {
		waits = append(waits, waitCondition{
			fleet.WaitFleetUnknown, "the publisher does not know all runtimes in channel " + entry.Channel,
		})
	}
	return waits
}

// holdReason returns the reason why a ModuleTemplate stops the promotion of its version. held is false if the
// ModuleTemplate does not stop the promotion.
func holdReason(t *v1beta2.ModuleTemplate) (why string, held bool) {
	if why, held = t.Annotations[v1beta2.AnnotationHoldPromotion]; held {
		return why, true
	}
	why, held = t.Labels[v1beta2.LabelHoldPromotion]
	return "label " + v1beta2.LabelHoldPromotion + "=" + why, held
}

// unmetConditions returns the conditions of a channel that are not met yet, such as the number of ready runtimes.
func (c *chain) unmetConditions(
	entry *fleet.TrainVersion, channel *fleet.TrainChannel, counts Counts, counted bool,
) (waits []waitCondition) {
	if why := tooManyFailures(entry, channel); why != "" {
		waits = append(waits, waitCondition{fleet.WaitTooManyFailures, why})
	}
	if why := c.failedChecksMessage(entry, counts); why != "" {
		waits = append(waits, waitCondition{fleet.WaitCheckFailed, why})
	}
	track := rollout.Track{Module: c.module, Channel: channel.Name}
	switch newest := rollout.NewestRollout(c.rollouts[track]); {
	case newest != nil && newest.Spec.To == entry.Version && newest.Status.State != fleet.RolloutSucceeded:
		waits = append(waits, waitCondition{
			fleet.WaitRolloutActive, fmt.Sprintf("rollout %s is %s", newest.Name, rolloutState(newest)),
		})
	case (newest == nil || newest.Spec.To != entry.Version) && counts.Behind > 0 &&
		rollout.FindPolicy(c.RolloutPolicies, track) != nil:
		waits = append(waits, waitCondition{
			fleet.WaitRolloutActive, fmt.Sprintf("the rollout in channel %s has not started", channel.Name),
		})
	}
	if least := leastRuntimes(channel); counted && entry.Ready < least {
		waits = append(
			waits,
			waitCondition{
				fleet.WaitTooFewRuntimes,
				fmt.Sprintf("%d runtimes in channel %s are ready with the version, minRuntimes is %d", entry.Ready,
					channel.Name, least),
			},
		)
	}
	return waits
}

// tooManyFailures returns a message if more runtimes failed than the channel allows, or "".
func tooManyFailures(entry *fleet.TrainVersion, channel *fleet.TrainChannel) string {
	failed, all := int64(entry.Failed)*100, int64(entry.Ready+entry.Failed)
	limit, tooMany := fmt.Sprintf("maxFailurePercent is %d", channel.MaxFailurePercent),
		failed > int64(channel.MaxFailurePercent)*all
	if below := channel.FailuresBelowPercent; below > 0 {
		limit, tooMany = fmt.Sprintf("failuresBelowPercent is %d", below), failed > 0 && failed >= int64(below)*all
	}
	if !tooMany {
		return ""
	}
	return fmt.Sprintf("%d of %d runtimes failed, %s", entry.Failed, all, limit)
}

func rolloutState(r *fleet.Rollout) string {
	if r.Status.State == "" {
		return "new"
	}
	return string(r.Status.State)
}

func (c *chain) waitingTimeCondition(entry *fleet.TrainVersion, channel *fleet.TrainChannel) []waitCondition {
	if channel.After == nil {
		return []waitCondition{{fleet.WaitPolicyHeld, fmt.Sprintf("spec.channels: %s: after is required", channel.Name)}}
	}
	until := readyStart(entry).Add(channel.After.Duration)
	switch {
	case entry.PausedAt != nil && entry.PausedAt.Time.Before(until):
		return []waitCondition{{
			fleet.WaitTimeNotReached,
			fmt.Sprintf("the waiting time in channel %s is paused, %s remain", channel.Name, until.Sub(entry.PausedAt.Time)),
		}}
	case entry.PausedAt != nil, !c.Now.Before(until):
		return nil
	}
	return []waitCondition{
		{
			fleet.WaitTimeNotReached,
			fmt.Sprintf("the waiting time in channel %s ends at %s", channel.Name, until.UTC().Format(time.RFC3339)),
		},
	}
}

// busyCondition returns a condition if the next channel has an active Rollout or a pending promotion. Without this
// condition, frequent new versions would replace each other before any of them reaches the last channel.
func (c *chain) busyCondition(to string, after *fleet.TrainVersion) []waitCondition {
	if newest := rollout.NewestRollout(c.rollouts[rollout.Track{Module: c.module, Channel: to}]); newest != nil &&
		!rollout.IsFinished(newest.Status.State) {
		return []waitCondition{
			{
				fleet.WaitNextChannelBusy,
				fmt.Sprintf("rollout %s in channel %s is %s", newest.Name, to, rolloutState(newest)),
			},
		}
	}
	if c.isMoving(after) {
		return []waitCondition{
			{
				fleet.WaitNextChannelBusy,
				fmt.Sprintf("channel %s has %s, which has not been promoted to the next channel yet", to, after.Version),
			},
		}
	}
	return nil
}

// isMoving reports whether the version is expected to be promoted to the next channel without an operator's help. A
// version with too few runtimes counts as moving only during its waiting time, so that it does not block a fix forever.
func (c *chain) isMoving(entry *fleet.TrainVersion) bool {
	switch entry.Reason {
	case fleet.WaitTooFewRuntimes:
		return slices.ContainsFunc(c.policy.Spec.Channels, func(channel fleet.TrainChannel) bool {
			return channel.Name == entry.Channel && channel.After != nil &&
				c.Now.Before(entry.Since.Add(channel.After.Duration))
		})
	case fleet.WaitPolicyHeld,
		fleet.WaitFleetUnknown,
		fleet.WaitRolloutActive,
		fleet.WaitTimeNotReached,
		fleet.WaitNextChannelBusy,
		fleet.WaitCalendarClosed,
		fleet.WaitDue:
		return true
	}
	return false
}

func (c *chain) closedCondition() []waitCondition {
	if why := c.calendar.closedReason(c.Now); why != "" {
		return []waitCondition{{fleet.WaitCalendarClosed, why}}
	}
	return nil
}

func joinWaits(waits []waitCondition) string {
	texts := make([]string, len(waits))
	for i, w := range waits {
		texts[i] = w.message
	}
	return truncate(strings.Join(texts, "; "), 600)
}

func truncate(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "") + "…"
}
