package readings

import (
	"testing"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestCheckValueParsesDurationsAndFiniteNumbers(t *testing.T) {
	for text, want := range map[string]float64{"0.5": 0.5, "-3": -3, "250ms": 0.25, "1m30s": 90} {
		if got, is := Parse(text); !is || got != want {
			t.Errorf("text %q: got %v, %t, want %v", text, got, is, want)
		}
	}
	for _, text := range []string{"", "NaN", "+Inf", "many", "5 s"} {
		if got, is := Parse(text); is {
			t.Errorf("text %q: got %v, want no number", text, got)
		}
	}
}

func TestWorstValueDependsOnTheBounds(t *testing.T) {
	values := List{{Number: 3, Runtime: "a"}, {Number: 1, Runtime: "b"}, {Number: 2, Runtime: "c"}}
	for name, c := range map[string]struct {
		check fleet.Check
		want  string
	}{
		"check with an upper bound":             {fleet.Check{PromQL: &fleet.PromQLCheck{Max: "5"}}, "a"},
		"check with a lower bound":              {fleet.Check{PromQL: &fleet.PromQLCheck{Min: "1"}}, "b"},
		"check with a lower and an upper bound": {fleet.Check{PromQL: &fleet.PromQLCheck{Min: "1", Max: "5"}}, "a"},
		"HTTP check":                            {fleet.Check{HTTP: &fleet.HTTPCheck{}}, "a"},
	} {
		if got := values.Worst(c.check); got.Runtime != c.want {
			t.Errorf("%s: got worst runtime %s, want %s", name, got.Runtime, c.want)
		}
	}
}
