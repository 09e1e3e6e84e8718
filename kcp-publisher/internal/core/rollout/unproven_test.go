package rollout

import (
	"testing"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// The control plane lost its Rollouts while the runtimes had different versions. An operator had undone the rollout of
// 1.2.0, the most common version. The next rollouts must not install 1.2.0 in the runtimes with older versions.
func TestUnprovenVersionDoesNotReachOlderRuntimes(t *testing.T) {
	runtimes := []Runtime{
		at("one", "prod", "1.2.0"), at("two", "prod", "1.2.0"), at("three", "prod", "1.2.0"),
		at("old", "prod", "1.1.0"), at("older", "dev", "1.0.0"),
	}
	var rollouts []fleet.Rollout
	for i, promoted := range []string{"2.0.0", "2.1.0"} {
		now := noon.Add(time.Duration(i) * time.Second)
		round := EvaluateAll(policies("careful"), rollouts, map[Track]Followers{keda: {promoted, runtimes}}, now)
		if len(round.Create) != 1 || round.Create[0].Spec.From != "1.2.0" || !round.Create[0].Spec.FromUnproven {
			t.Fatalf("promotion of %s: got created rollouts %+v", promoted, round.Create)
		}
		round.Create[0].ResourceVersion = "1"
		rollouts = append(rollouts, *round.Create[0])
		for place, gates := range map[string]Gates{
			"planner": round.Gates,
			"shard":   RecordedGates(policies("careful"), rollouts, map[Track]Followers{keda: {promoted, runtimes}}, now),
		} {
			for runtime, want := range map[string]string{"one": "1.2.0", "old": "1.1.0"} {
				if got := gates[keda].Decide(runtime, want).Version; got != want {
					t.Errorf("%s, promotion of %s: %s gets version %s, want %s", place, promoted, runtime, got, want)
				}
			}
			if got := gates[keda].Decide("fresh", "").Version; got != "1.2.0" {
				t.Errorf("%s, promotion of %s: a new runtime gets version %s, want 1.2.0", place, promoted, got)
			}
		}
		if got := round.Gates[keda].Decide("older", "1.0.0").Version; got != promoted {
			t.Errorf("the runtime in the first wave gets version %s, want %s", got, promoted)
		}
	}
}

// The rollout from the unproven version 1.2.0 was rolled back. One runtime still has an older version.
func TestChannelSetBackToUnprovenVersionUpdatesAll(t *testing.T) {
	runtimes := []Runtime{at("one", "dev", "1.2.0"), at("old", "prod", "1.1.0")}
	for channel, want := range map[string]string{"2.0.0": "1.1.0", "1.2.0": "1.2.0"} {
		rolledBack := carriedOut(fleet.RolloutRolledBack)
		rolledBack.Spec.From, rolledBack.Spec.FromUnproven, rolledBack.ResourceVersion = "1.2.0", true, "1"
		rollouts, followers := []fleet.Rollout{rolledBack}, map[Track]Followers{keda: {channel, runtimes}}
		round := EvaluateAll(policies("careful"), rollouts, followers, noon)
		if len(round.Create) > 0 {
			t.Errorf("channel %s: got created rollouts %+v", channel, round.Create)
		}
		for place, gates := range map[string]Gates{
			"planner": round.Gates, "shard": RecordedGates(policies("careful"), rollouts, followers, noon),
		} {
			if got := gates[keda].Decide("old", "1.1.0").Version; got != want {
				t.Errorf("%s, channel %s: the older runtime gets version %s, want %s", place, channel, got, want)
			}
		}
	}
}

func TestRolloutRecordsWhetherItsStartVersionIsProven(t *testing.T) {
	left := at("left", "prod", "1.0.0")
	spec := twoWaves()
	spec.From, spec.To, spec.FromUnproven = "1.2.0", "2.0.0", true
	for name, c := range map[string]struct {
		status   fleet.RolloutStatus
		unproven bool
	}{
		"first rollout rolled back": {fleet.RolloutStatus{State: fleet.RolloutRolledBack}, true},
		"first rollout succeeded":   {fleet.RolloutStatus{State: fleet.RolloutSucceeded}, false},
		"version was published without a policy": {
			fleet.RolloutStatus{State: fleet.RolloutRolledBack, VersionWithoutPolicy: "1.2.0"}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := &fleet.Rollout{Spec: spec, Status: c.status}
			next := nextRollout(&policies("careful")[0], keda, "3.0.0", before, []Runtime{left})
			if next == nil || next.FromUnproven != c.unproven {
				t.Errorf("got rollout %+v, want fromUnproven %t", next, c.unproven)
			}
		})
	}
	same := nextRollout(&policies("careful")[0], keda, "3.0.0", nil, []Runtime{left, left})
	if same == nil || same.FromUnproven {
		t.Errorf("all runtimes have the same version: got rollout %+v, want a proven version", same)
	}
}
