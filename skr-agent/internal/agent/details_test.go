package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestFailingModuleDetailsAreReadLessOftenOverTime(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	k, now := inspectedDetails{}.update("Error", start, &bundle.ModuleDetails{}), start
	if !k.dueAt(true).Equal(start.Add(detailsInterval)) {
		t.Errorf("details of a ready module: the next read is after %s, want %s", k.dueAt(true).Sub(start), detailsInterval)
	}
	var delays []time.Duration
	for range 8 {
		delays = append(delays, k.dueAt(false).Sub(now))
		now = k.dueAt(false)
		k = k.update("Error", now, &bundle.ModuleDetails{})
	}
	want := []time.Duration{
		15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute,
		detailsInterval, detailsInterval, detailsInterval,
	}
	if !slices.Equal(delays, want) {
		t.Errorf("got delays %v, want %v", delays, want)
	}
	k = k.update("Processing", now, &bundle.ModuleDetails{})
	if got := k.dueAt(false).Sub(now); got != firstDetailsDelay {
		t.Errorf("after a change of the state: got a delay of %s, want %s", got, firstDetailsDelay)
	}
}
