package train

import (
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// expectedPromotion returns the expected time at which the version is promoted to the next channel. It returns zero if
// the promotion does not depend on time alone.
func (c *chain) expectedPromotion(
	entry *fleet.TrainVersion, channel *fleet.TrainChannel, nextChannel string, nextEntry *fleet.TrainVersion,
	waits []waitCondition,
) time.Time {
	at := c.Now
	later := func(t time.Time) {
		if t.After(at) {
			at = t
		}
	}
	for _, w := range waits {
		switch w.reason {
		case fleet.WaitTimeNotReached:
			later(readyStart(entry).Add(channel.After.Duration))
		case fleet.WaitRolloutActive:
			end := c.estimatedRolloutEnd(channel.Name)
			if end.IsZero() {
				return time.Time{}
			}
			later(end.Add(channel.After.Duration))
		case fleet.WaitNextChannelBusy:
			free := c.estimatedRolloutEnd(nextChannel)
			if c.isMoving(nextEntry) && nextEntry.Arrival != nil && nextEntry.Arrival.After(free) {
				free = nextEntry.Arrival.Time
			}
			if free.IsZero() {
				return time.Time{}
			}
			later(free)
		case fleet.WaitCalendarClosed:
		default:
			return time.Time{}
		}
	}
	return c.calendar.nextOpen(at).UTC()
}

// estimatedRolloutEnd returns the expected end of the active rollout in a channel. Without an estimate, it returns
// zero.
func (c *chain) estimatedRolloutEnd(channel string) time.Time {
	newest := rollout.NewestRollout(c.rollouts[rollout.Track{Module: c.module, Channel: channel}])
	if newest == nil || rollout.IsFinished(newest.Status.State) || newest.Status.EstimatedEnd == nil ||
		newest.Status.EstimatedEnd.Time.Before(c.Now) {
		return time.Time{}
	}
	return newest.Status.EstimatedEnd.Time
}
