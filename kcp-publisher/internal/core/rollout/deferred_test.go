package rollout

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestWaveWithDeferredRuntimesWaitsForApproval(t *testing.T) {
	away := func(id string) Runtime {
		r := grantedAgo(at(id, "dev", ""), 5)
		r.IsCurrent, r.LastReport.KnownAt = false, noon.Add(-time.Hour)
		return r
	}
	ready := grantedAgo(at("ready", "dev", ""), 5)
	prod := at("prod", "prod", "1.0.0")
	command := "kcp-publisher rollout approve " + first + " development"
	for name, c := range map[string]struct {
		runtimes []Runtime
		change   func(*fleet.RolloutSpec)
		waits    bool // the wave waits for approval
		all      bool // all runtimes of the wave are deferred
		starts   bool // the next wave starts
	}{
		"too many runtimes are deferred": {[]Runtime{ready, away("a"), prod}, nil, true, false, false},
		"operator approved the deferred runtimes": {
			[]Runtime{ready, away("a"), prod},
			func(s *fleet.RolloutSpec) { s.ApprovedDeferredWaves = []string{"development"} }, false, false, true,
		},
		"operator approved the start of the wave only": {
			[]Runtime{ready, away("a"), prod},
			func(s *fleet.RolloutSpec) {
				s.Waves[0].Approval, s.ApprovedWaves = true, []string{"development"}
			}, true, false, false,
		},
		"approved wave without an updated runtime": {
			[]Runtime{away("a"), away("b"), prod},
			func(s *fleet.RolloutSpec) { s.ApprovedDeferredWaves = []string{"development"} }, true, true, false,
		},
		"all runtimes are deferred": {[]Runtime{away("a"), away("b"), prod}, nil, true, true, false},
		"all runtimes are deferred, operator approved the wave": {
			[]Runtime{away("a"), away("b"), prod},
			func(s *fleet.RolloutSpec) { s.ApprovedWaves = []string{"development"} }, false, true, true,
		},
		"all runtimes are deferred, paused": {
			[]Runtime{away("a"), prod}, func(s *fleet.RolloutSpec) { s.Paused = true }, false, true, false,
		},
		"maxDeferred allows the deferred runtime": {
			[]Runtime{ready, away("a"), prod},
			func(s *fleet.RolloutSpec) { s.Waves[0].MaxDeferred = new(intstr.FromInt32(1)) }, false, false, true,
		},
		"paused": {
			[]Runtime{ready, away("a"), prod}, func(s *fleet.RolloutSpec) { s.Paused = true }, false, false, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := twoWaves()
			spec.Waves[0].Soak.Duration = 0
			began := Plan(first, spec, fleet.RolloutStatus{}, c.runtimes, PlanInput{
				ChannelVersion: "2.0.0", Now: noon.Add(-5 * time.Minute),
			}).Status
			if c.change != nil {
				c.change(&spec)
			}
			status := Plan(first, spec, began, c.runtimes, PlanInput{ChannelVersion: "2.0.0", Now: noon}).Status
			wave := status.Waves[0]
			if wave.WaitsForDeferred != (c.waits && !c.all) || AwaitsApproval(spec, wave) != c.waits ||
				c.waits != (status.State == fleet.RolloutWaiting) || c.waits != strings.Contains(status.Message, command) {
				t.Errorf("got rollout %s, wave %+v, message %q; waits: want %t", status.State, wave, status.Message, c.waits)
			}
			if starts := status.Waves[1].StartedAt != nil; starts != c.starts {
				t.Errorf("the next wave started: %t, want %t: %s", starts, c.starts, status.Message)
			}
		})
	}
}
