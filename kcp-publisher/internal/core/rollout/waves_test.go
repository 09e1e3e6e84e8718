package rollout

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestDefaultOfMaxFailures(t *testing.T) {
	for name, c := range map[string]struct {
		total int
		asked *intstr.IntOrString
		want  int
	}{
		"one runtime":                        {1, nil, 0},
		"nine runtimes":                      {9, nil, 0},
		"ten runtimes":                       {10, nil, 1},
		"350 runtimes":                       {350, nil, 3},
		"10,000 runtimes":                    {10_000, nil, 100},
		"10,000 runtimes with maxFailures 0": {10_000, new(intstr.FromInt32(0)), 0},
		"50 runtimes with maxFailures 10%":   {50, new(intstr.FromString("10%")), 5},
	} {
		w := wave{total: c.total}
		if w.budgets(fleet.Wave{MaxFailures: c.asked}); w.maxFailures != c.want {
			t.Errorf("%s: got maxFailures %d, want %d", name, w.maxFailures, c.want)
		}
	}
}
