package chaos

import (
	"strings"
	"testing"
	"time"
)

func TestUnsupportedOptionCombinationsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		shape Shape
		want  string
	}{
		"all supported options":     {Shape{Network: true, Disasters: true, Mixed: "a", Expiry: true, Shards: true}, ""},
		"shards and notifications":  {Shape{Shards: true, Notifications: true}, ""},
		"earlier agents and clocks": {Shape{Mixed: "a", Clocks: true}, "the clock of an earlier agent"},
		"expiry and clocks":         {Shape{Expiry: true, Clocks: true}, "all bundles expire"},
	} {
		err := c.shape.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", name, err, c.want)
		}
	}
}

func TestDisasterPlanSkipsAgentsFromEarlierReleases(t *testing.T) {
	shape := Shape{Real: 4, Simulated: 2, Replicas: 2, Disasters: true, Mixed: "a"}
	hit := map[string]bool{}
	for _, s := range Generate(1, shape, time.Hour) {
		if isDisaster(s.Kind) && s.Target != "" {
			hit[s.Target] = true
		}
	}
	for i := range shape.Real {
		if id := RealID(i); hit[id] == shape.isMixed(id) {
			t.Errorf("%s: earlier agent: %t, disasters: %t", id, shape.isMixed(id), hit[id])
		}
	}
	if shape.isMixed(RealID(0)) || !shape.isMixed(RealID(1)) {
		t.Error("the first runtime must have the current agent, and the second the earlier agent")
	}
}
