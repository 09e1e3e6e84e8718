package changes

import (
	"fmt"
	"slices"
	"testing"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestFailedCheckWithinMaxFailuresIsReportedOnce(t *testing.T) {
	status := func(state fleet.RolloutState, latency, errors int32, failures ...fleet.RuntimeFailure) fleet.RolloutStatus {
		checks := []fleet.CheckSummary{{Name: "latency", Failed: latency}, {Name: "latency-2", Failed: errors}}
		wave := fleet.WaveStatus{Name: "canary", Total: 40, Checks: checks}
		return fleet.RolloutStatus{State: state, Waves: []fleet.WaveStatus{wave}, Failures: failures}
	}
	failure := func(runtime, check string) fleet.RuntimeFailure {
		return fleet.RuntimeFailure{
			Runtime: runtime, Wave: "canary", Check: check, Reason: "check " + check + " is Failed: 0.9",
		}
	}
	const going = fleet.RolloutProgressing
	one := status(going, 1, 0, failure("r-1", "latency"))
	two := status(going, 2, 1, failure("r-1", "latency"), failure("r-2", "latency"), failure("r-3", "latency-2"))
	const inTwo = "check latency failed in 2 of 40 runtimes in wave canary, which maxFailures allows: r-1 (0.9), r-2 (0.9)"
	many := make([]fleet.RuntimeFailure, 10)
	for i := range many {
		many[i] = failure(fmt.Sprint("r-", i), "latency")
	}
	for name, c := range map[string]struct {
		before, after fleet.RolloutStatus
		want          []string
	}{
		"first failure": {
			status(going, 0, 0), one,
			[]string{"check latency failed in 1 of 40 runtimes in wave canary, which maxFailures allows: r-1 (0.9)"},
		},
		"same failure": {one, one, nil},
		"more failures": {
			one, two, []string{
				inTwo, "check latency-2 failed in 1 of 40 runtimes in wave canary, which maxFailures allows: r-3 (0.9)",
			},
		},
		"fewer failures": {two, one, nil},
		"many failures": {
			two, status(going, 30, 1, many...), []string{"check latency failed in 30 of 40 runtimes in wave canary, which " +
				"maxFailures allows: r-0 (0.9), r-1 (0.9), r-2 (0.9), r-3 (0.9), r-4 (0.9) and 25 more"},
		},
		"wave that failed":         {one, status(fleet.RolloutRollingBack, 2, 0), nil},
		"failure in the last wave": {one, status(fleet.RolloutSucceeded, 2, 0, two.Failures[:2]...), []string{inTwo}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, change := range Between(c.before, c.after) {
				if change.Reason == fleet.ReasonCheckFailed {
					got = append(got, change.Note)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}
