package rollout

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestMaxFailuresDefaultsToOnePercent(t *testing.T) {
	for name, c := range map[string]struct {
		total int
		asked *intstr.IntOrString
		want  int
	}{
		"wave with one runtime":                       {1, nil, 0},
		"wave with nine runtimes":                     {9, nil, 0},
		"wave with ten runtimes":                      {10, nil, 1},
		"wave with 350 runtimes":                      {350, nil, 3},
		"wave with 10,000 runtimes":                   {10_000, nil, 100},
		"wave with 10,000 runtimes and maxFailures 0": {10_000, new(intstr.FromInt32(0)), 0},
		"wave with 50 runtimes and maxFailures 10%":   {50, new(intstr.FromString("10%")), 5},
	} {
		w := wave{total: c.total}
		if w.setBudgets(fleet.Wave{MaxFailures: c.asked}); w.maxFailures != c.want {
			t.Errorf("%s: got maxFailures %d, want %d", name, w.maxFailures, c.want)
		}
	}
}

// The publisher does not record the runtime's reports, for example because another agent uses its identity.
func TestUnpublishableRuntimeDoesNotStopAWave(t *testing.T) {
	for name, c := range map[string]struct {
		unpublishable, minutes, started int  // minutes since the publish failure and since the start of the wave
		want                            bool // true if the next wave starts
	}{
		"one unpublishable runtime before the deadline": {1, 9, 60, false},
		"one unpublishable runtime after the deadline":  {1, 11, 60, true},
		"a quarter of the wave's runtimes":              {5, 11, 60, true},
		"more than a quarter of the wave's runtimes":    {6, 11, 60, false},
		"all runtimes": {20, 11, 60, false},
		"one runtime that was unpublishable for days before the wave": {1, 3 * 24 * 60, 9, false},
		"the same runtime, after the wave's deadline":                 {1, 3 * 24 * 60, 11, true},
	} {
		t.Run(name, func(t *testing.T) {
			var runtimes []Runtime
			for i := range 20 {
				r := grantedAgo(at(fmt.Sprintf("dev-%d", i), "dev", ""), 60)
				if i < c.unpublishable {
					r.IsCurrent, r.State, r.Unpublishable = false, "", true
					r.UnpublishableSince = noon.Add(-time.Duration(c.minutes) * time.Minute)
				}
				runtimes = append(runtimes, r)
			}
			runtimes = append(runtimes, at("prod", "prod", "1.0.0"))
			began := noon.Add(-time.Duration(c.started) * time.Minute)
			status := Plan(first, twoWaves(), fleet.RolloutStatus{}, runtimes,
				PlanInput{ChannelVersion: "2.0.0", Now: began}).Status
			step := Plan(first, twoWaves(), status, runtimes, PlanInput{ChannelVersion: "2.0.0", Now: noon})
			if got := step.Decisions[20].Version == "2.0.0"; got != c.want {
				t.Errorf("got version %s for production, rollout message %s", step.Decisions[20].Version,
					step.Status.Message)
			}
		})
	}
}

func TestProgressMessageNamesTheEndOfTheSoakTime(t *testing.T) {
	for last, want := range map[bool]string{
		false: "soaking before the next wave starts",
		true:  "soaking before the rollout ends",
	} {
		if got := (&wave{}).progressMessage("", true, last); got != want {
			t.Errorf("last wave %t: got message %q, want %q", last, got, want)
		}
	}
}
