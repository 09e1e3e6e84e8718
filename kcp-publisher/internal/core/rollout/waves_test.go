package rollout

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestOneRuntimeOfManyStopsNoRollout(t *testing.T) {
	for name, c := range map[string]struct {
		total int
		asked *intstr.IntOrString
		want  int
	}{
		"a canary":                      {1, nil, 0},
		"a few canaries":                {9, nil, 0},
		"ten":                           {10, nil, 1},
		"hundreds":                      {350, nil, 3},
		"a fleet":                       {10_000, nil, 100},
		"a fleet whose operator sets 0": {10_000, new(intstr.FromInt32(0)), 0},
		"a share":                       {50, new(intstr.FromString("10%")), 5},
	} {
		w := wave{total: c.total}
		if w.budgets(fleet.Wave{MaxFailures: c.asked}); w.maxFailures != c.want {
			t.Errorf("%s: %d may fail, want %d", name, w.maxFailures, c.want)
		}
	}
}
