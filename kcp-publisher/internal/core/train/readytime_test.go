package train

import (
	"strings"
	"testing"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestFailureLimitsAreExactAtTheBoundary(t *testing.T) {
	for _, c := range []struct {
		max, below, ready, failed int32
		tooMany                   string
	}{
		{max: 0, ready: 5},
		{max: 0, ready: 99999, failed: 1, tooMany: "1 of 100000 runtimes failed, maxFailurePercent is 0"},
		{max: 5, ready: 95, failed: 5},
		{max: 5, ready: 94, failed: 5, tooMany: "5 of 99 runtimes failed, maxFailurePercent is 5"},
		{below: 5, ready: 96, failed: 4},
		{below: 5, ready: 955, failed: 45},
		{below: 5, ready: 95, failed: 5, tooMany: "5 of 100 runtimes failed, failuresBelowPercent is 5"},
		{below: 1, ready: 5},
		{below: 1, ready: 99, failed: 1, tooMany: "1 of 100 runtimes failed, failuresBelowPercent is 1"},
		{below: 100, failed: 3, tooMany: "3 of 3 runtimes failed, failuresBelowPercent is 100"},
		{below: 100}, // minRuntimes blocks a channel without runtimes
	} {
		got := tooManyFailures(&fleet.TrainVersion{Ready: c.ready, Failed: c.failed},
			&fleet.TrainChannel{MaxFailurePercent: c.max, FailuresBelowPercent: c.below})
		if got != c.tooMany {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

// Channel fast needs 3 ready runtimes for a week. One version is observed over time.
func TestWaitingTimePausesWhileTooFewRuntimesAreReady(t *testing.T) {
	const day = 24 * time.Hour
	in := due()
	in.Policies[0].Status = fleet.PromotionPolicyStatus{}
	at := func(after time.Duration, runtimes int32, reason fleet.WaitReason, message string) {
		t.Helper()
		in.Now = monday.Add(after)
		in.Fleet[inFast] = Counts{Version: "1.8.0", Ready: runtimes}
		if runtimes < 0 {
			in.Fleet = nil
		}
		out := Plan(in)[0]
		in.Policies[0].Status, in.Fleet = out.Status, ready(in.Metas[0], 5)
		if got := entry(t, out, "fast"); got.Reason != reason || !strings.Contains(got.Message, message) {
			t.Fatalf("after %s: got %s, %s; want %s, %s", after, got.Reason, got.Message, reason, message)
		}
	}
	at(0, 0, fleet.WaitTooFewRuntimes, "is paused, 168h0m0s remain")
	at(8*day, 2, fleet.WaitTooFewRuntimes, "is paused, 168h0m0s remain") // the channel has had the version for a week
	at(9*day, 3, fleet.WaitTimeNotReached, "ends at "+monday.Add(16*day).Format(time.RFC3339))
	at(12*day, 5, fleet.WaitTimeNotReached, "ends at "+monday.Add(16*day).Format(time.RFC3339))
	at(13*day, 2, fleet.WaitTooFewRuntimes, "is paused, 72h0m0s remain")
	at(15*day, 3, fleet.WaitTimeNotReached, "ends at "+monday.Add(18*day).Format(time.RFC3339))
	at(16*day, -1, fleet.WaitFleetUnknown, "is paused, 48h0m0s remain")
	at(16*day+time.Hour, 3, fleet.WaitTimeNotReached, "ends at "+monday.Add(18*day+time.Hour).Format(time.RFC3339))
	at(18*day+time.Hour-time.Nanosecond, 3, fleet.WaitTimeNotReached, "")
	at(18*day+time.Hour, 3, fleet.WaitDue, "")
}

// A publisher from an earlier release did not record pauses.
func TestPublisherUpgradeKeepsRecordedWaitingTime(t *testing.T) {
	in := due()
	in.Fleet[inFast] = Counts{Version: "1.8.0", Ready: 2}
	out := Plan(in)[0]
	if got := entry(t, out, "fast"); got.PausedAt == nil || strings.Contains(got.Message, "waiting time") {
		t.Fatalf("got %+v, want a pause after the waiting time", got)
	}
	in.Policies[0].Status, in.Fleet[inFast], in.Now = out.Status, Counts{Version: "1.8.0", Ready: 3}, monday.Add(week)
	if got := entry(t, Plan(in)[0], "fast"); got.Reason != fleet.WaitDue {
		t.Errorf("got %+v, want the version to be due", got)
	}
}
