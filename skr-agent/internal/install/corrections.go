package install

import (
	"time"

	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// corrections contains the recent drift corrections for each of a module's objects. If another client keeps changing an
// object back, the agent corrects this object less often, but not the other objects.
type corrections map[guard.Key]streak

// streak is a series of drift corrections to one object in quick succession.
type streak struct {
	last  time.Time
	count int
}

// delay returns the time until the object's next correction.
func (s streak) delay(now time.Time) time.Duration {
	const patience = 5
	if s.count < patience {
		return 0
	}
	wait := min(time.Second<<min(s.count-patience, 10), 5*time.Minute)
	return max(0, wait-now.Sub(s.last))
}

// isOver reports whether the last correction is so long ago that the next one starts a new series.
func (s streak) isOver(now time.Time) bool {
	return now.Sub(s.last) > max(time.Minute, 2*time.Second<<min(s.count, 10))
}

// count adds the corrected objects to their series, and removes series that are over.
func (c *corrections) count(corrected []guard.Key, now time.Time) {
	if *c == nil {
		*c = corrections{}
	}
	for k, s := range *c {
		if s.isOver(now) {
			delete(*c, k)
		}
	}
	for _, k := range corrected {
		(*c)[k] = streak{now, (*c)[k].count + 1}
	}
}

// split returns the changed objects to correct now, and the objects to correct later. wait is the time until the first
// of these later corrections, or 0.
func (c corrections) split(changed object.Keys, now time.Time) (due, later object.Keys, wait time.Duration) {
	due, later = object.Keys{}, object.Keys{}
	for k := range changed {
		delay := c[k].delay(now)
		if delay == 0 {
			due[k] = struct{}{}
			continue
		}
		later[k] = struct{}{}
		if wait == 0 || delay < wait {
			wait = delay
		}
	}
	return due, later, wait
}
