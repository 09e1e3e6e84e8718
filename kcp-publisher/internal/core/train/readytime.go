package train

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// leastRuntimes returns the number of runtimes that must be ready with the version of a channel.
func leastRuntimes(channel *fleet.TrainChannel) int32 { return max(channel.MinRuntimes, 1) }

// readyStart returns the start of a version's waiting time. Each pause has moved the start forward by the length of the
// pause.
func readyStart(entry *fleet.TrainVersion) time.Time {
	if entry.ReadySince != nil && entry.ReadySince.After(entry.Since.Time) {
		return entry.ReadySince.Time
	}
	return entry.Since.Time
}

// measureReadyTime pauses the waiting time of a version while too few of its runtimes are ready. The parameter enough
// is true if the required number of runtimes is known to be ready. When a pause ends, the start of the waiting time
// moves forward by the length of the pause. Therefore, the status does not change during a pause or between two pauses.
//
// The start of a pause is rounded down to a full second. The new start of the waiting time is rounded up. Therefore, a
// version is never promoted too early.
func (c *chain) measureReadyTime(entry *fleet.TrainVersion, enough bool) {
	had := c.recordedVersion(entry.Channel)
	if had == nil || had.Version != entry.Version {
		if !enough {
			entry.PausedAt = new(entry.Since)
		}
		return
	}
	entry.ReadySince, entry.PausedAt = had.ReadySince, had.PausedAt
	switch {
	case !enough && entry.PausedAt == nil:
		entry.PausedAt = new(pauseStart(c.Now))
	case enough && entry.PausedAt != nil:
		start := readyStart(entry)
		paused := c.Now.Sub(later(start, entry.PausedAt.Time))
		entry.PausedAt = nil
		if paused > 0 {
			entry.ReadySince = new(roundUp(start.Add(paused)))
		}
	}
}

// pauseStart returns the start of a pause, rounded down to a full second.
func pauseStart(now time.Time) metav1.Time { return metav1.NewTime(now.UTC().Truncate(time.Second)) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
