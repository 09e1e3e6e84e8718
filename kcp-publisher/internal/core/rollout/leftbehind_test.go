package rollout

import (
	"slices"
	"testing"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// Each step sets the channel's version, with or without a policy for the track. The first rollout is from 1.0.0 to
// 2.0.0.
func TestPromotionWithoutPolicySetsTheLastGoodVersion(t *testing.T) {
	const with, without = true, false
	type step struct {
		channel string
		policy  bool
	}
	for name, c := range map[string]struct {
		state fleet.RolloutState
		steps []step
		made  string // From and To of the created rollouts
		// fresh is the version that a new runtime must get after the last step.
		fresh string
	}{
		"rollout succeeded": {
			state: fleet.RolloutSucceeded, steps: []step{{"2.1.0", without}, {"2.1.0", with}}, fresh: "2.1.0",
		},
		"rollout rolled back": {
			state: fleet.RolloutRolledBack, steps: []step{{"2.1.0", without}, {"2.1.0", with}}, fresh: "2.1.0",
		},
		"rollout stopped": {
			state: fleet.RolloutStopped, steps: []step{{"2.1.0", without}, {"2.1.0", with}}, fresh: "2.1.0",
		},
		"promotion with the policy": {
			state: fleet.RolloutSucceeded, steps: []step{{"2.1.0", with}}, made: " 2.0.0-2.1.0", fresh: "2.0.0",
		},
		"promotion after a succeeded rollout": {
			state: fleet.RolloutSucceeded, steps: []step{{"2.1.0", without}, {"2.2.0", with}},
			made: " 2.1.0-2.2.0", fresh: "2.1.0",
		},
		"promotion after a rolled-back rollout": {
			state: fleet.RolloutRolledBack, steps: []step{{"2.1.0", without}, {"2.2.0", with}},
			made: " 2.1.0-2.2.0", fresh: "2.1.0",
		},
		"several promotions without the policy": {
			state: fleet.RolloutSucceeded, steps: []step{{"2.1.0", without}, {"2.3.0", without}, {"2.4.0", with}},
			made: " 2.3.0-2.4.0", fresh: "2.3.0",
		},
		"channel returns to the rollout's version": {
			state: fleet.RolloutSucceeded,
			steps: []step{{"2.1.0", without}, {"2.0.0", without}, {"2.2.0", with}},
			made:  " 2.0.0-2.2.0", fresh: "2.0.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			all, made, had := []fleet.Rollout{carriedOut(c.state)}, "", "1.0.0"
			if c.state == fleet.RolloutSucceeded {
				had = "2.0.0"
			}
			for i, s := range c.steps {
				var covering []fleet.RolloutPolicy
				if s.policy {
					covering = policies("careful")
				}
				followers := map[Track]Followers{keda: {s.channel, []Runtime{at("dev", "dev", had), at("prod", "prod", had)}}}
				had = s.channel
				now := noon.Add(time.Duration(i) * time.Minute)
				round := EvaluateAll(covering, all, followers, now)
				for _, changed := range round.Update {
					all[slices.IndexFunc(all, func(r fleet.Rollout) bool { return r.Name == changed.Name })] = *changed
				}
				for _, r := range round.Create {
					made += " " + r.Spec.From + "-" + r.Spec.To
					r.ResourceVersion = "1"
					all = append(all, *r)
				}
				if again := EvaluateAll(covering, all, followers, now); len(again.Update)+len(again.Create) > 0 {
					t.Errorf("step %d: a second round updates %+v and creates %+v", i, again.Update, again.Create)
				}
				if i < len(c.steps)-1 {
					continue
				}
				for place, gates := range map[string]Gates{
					"planner": round.Gates, "shard": RecordedGates(covering, all, followers, now),
				} {
					fresh := s.channel
					if gate := gates[keda]; gate != nil {
						fresh = gate.Decide("fresh", "").Version
						if gate.isOpen {
							fresh = s.channel
						}
					}
					if fresh != c.fresh {
						t.Errorf("%s: got version %q for a new runtime, want %q", place, fresh, c.fresh)
					}
				}
			}
			if made != c.made {
				t.Errorf("got created rollouts%s, want%s", made, c.made)
			}
		})
	}
}
