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
		if w.budgets(fleet.Wave{MaxFailures: c.asked}); w.maxFailures != c.want {
			t.Errorf("%s: got maxFailures %d, want %d", name, w.maxFailures, c.want)
		}
	}
}

// TestUnpublishableRuntimeDoesNotStopAWave covers a runtime whose reports are not recorded, for example because another
// agent uses its identity. Registry outages affect all runtimes, which exceeds maxDeferred.
func TestUnpublishableRuntimeDoesNotStopAWave(t *testing.T) {
	for name, c := range map[string]struct {
		unpublishable, minutes int
		want                   bool // the next wave starts
	}{
		"one runtime for less than the deadline": {1, 9, false},
		"one runtime for more than the deadline": {1, 11, true},
		"a quarter of the wave":                  {5, 11, true},
		"more than a quarter of the wave":        {6, 11, false},
		"all runtimes":                           {20, 11, false},
	} {
		t.Run(name, func(t *testing.T) {
			var runtimes []Runtime
			for i := range 20 {
				r := grantedAgo(at(fmt.Sprintf("dev-%d", i), "dev", ""), 60)
				if i < c.unpublishable {
					r.Current, r.State, r.Unpublishable = false, "", true
					r.UnpublishableSince = noon.Add(-time.Duration(c.minutes) * time.Minute)
				}
				runtimes = append(runtimes, r)
			}
			runtimes = append(runtimes, at("prod", "prod", "1.0.0"))
			step := Plan(first, twoWaves(), fleet.RolloutStatus{}, runtimes, Situation{Channel: "2.0.0", Now: noon})
			if got := step.Decisions[20].Version == "2.0.0"; got != c.want {
				t.Errorf("got version %s for production, rollout message %s", step.Decisions[20].Version,
					step.Status.Message)
			}
		})
	}
}
