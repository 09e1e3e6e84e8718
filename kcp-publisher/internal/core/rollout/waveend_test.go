package rollout

import (
	"testing"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// waveWithLatency returns a policy with one wave, its Rollout after the wave was proven, and the wave's runtime.
func waveWithLatency(t *testing.T) ([]fleet.RolloutPolicy, []fleet.Rollout, Runtime) {
	t.Helper()
	policy, runtime := policies("careful"), at("prod", "prod", "1.0.0")
	policy[0].Spec.Waves = []fleet.Wave{{
		Name: "all", Percent: new(int32(100)), Checks: checkedWaves().Waves[0].Checks[:1],
	}}
	created := EvaluateAll(policy, nil, map[Track]Followers{keda: {"2.0.0", []Runtime{runtime}}}, noon).Create
	created[0].ResourceVersion = "1"
	runtime = withLatency(grantedAgo(runtime, 1), "0.2")
	runtime.Selection.Ready = true
	later := noon.Add(time.Minute)
	followers := map[Track]Followers{keda: {"2.0.0", []Runtime{runtime}}}
	round := EvaluateAll(policy, []fleet.Rollout{*created[0]}, followers, later)
	if len(round.Update) != 1 || round.Update[0].Status.State != fleet.RolloutSucceeded {
		t.Fatalf("got updates %+v, want a successful rollout", round.Update)
	}
	return policy, []fleet.Rollout{*round.Update[0]}, runtime
}

func withLatency(r Runtime, value string) Runtime {
	return measuredBy(r, v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckPassed, Value: value})
}

// The Kymas of the last wave record the final values of the checks after the rollout has succeeded.
func TestSuccessfulRolloutTakesFinalValues(t *testing.T) {
	policy, stored, runtime := waveWithLatency(t)
	runtime = withLatency(runtime, "0.9")
	ended := stored[0].Status.FinishedAt.Time
	for name, c := range map[string]struct {
		after    time.Duration
		runtimes []Runtime
		want     string // the value in an update, or empty without an update
	}{
		"changed value shortly after the end": {time.Second, []Runtime{runtime}, "0.9"},
		"same value shortly after the end":    {time.Second, []Runtime{withLatency(runtime, "0.2")}, ""},
		"runtimes that left the channel":      {time.Second, []Runtime{}, ""},
		"changed value a long time later":     {finalValuesWithin, []Runtime{runtime}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			now := ended.Add(c.after)
			if RestFilter(policy, stored, now)(keda, "2.0.0") != (c.after == finalValuesWithin) {
				t.Error("the track must be evaluated only shortly after the end of its rollout")
			}
			round := EvaluateAll(policy, stored, map[Track]Followers{keda: {"2.0.0", c.runtimes}}, now)
			got := ""
			for _, r := range round.Update {
				got = r.Status.Waves[0].Checks[0].Worst
			}
			if got != c.want {
				t.Errorf("got value %q, want %q", got, c.want)
			}
			if !round.Gates[keda].isOpen || round.IsActive {
				t.Error("the rollout must stay successful")
			}
		})
	}
}

func TestFinishedWaveChangesItsGates(t *testing.T) {
	spec := checkedWaves()
	fine := v1beta2.CheckOutcome{Name: "errors", Result: v1beta2.CheckPassed}
	fast := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckPassed, Value: "0.2"}
	slow := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckFailed, Value: "0.9"}
	prod := at("prod", "prod", "1.0.0")
	gates := func(outcomes ...v1beta2.CheckOutcome) Gates {
		dev := measuredBy(grantedAgo(at("dev", "dev", ""), 5), outcomes...)
		_, step := twoSteps(spec, dev)
		return Gates{keda: NewGate(&fleet.Rollout{Spec: spec}, step, []Runtime{dev, prod})}
	}
	given := v1beta2.GivenVersion{}
	measuring, proven := gates(fine), gates(fine, fast)
	if measuring.HasWaveEnded(keda, "dev", given, "2.0.0") || !proven.HasWaveEnded(keda, "dev", given, "2.0.0") {
		t.Error("only a proven wave must have ended")
	}
	if proven.HasWaveEnded(keda, "prod", given, "2.0.0") || proven.HasWaveEnded(keda, "dev", given, "1.0.0") {
		t.Error("the end of a wave must concern only its own runtimes, in the promoted version")
	}
	given.Rollout = "keda-regular-0"
	if proven.HasWaveEnded(keda, "dev", given, "2.0.0") {
		t.Error("a rollout must not end the wave of an earlier rollout")
	}
	if measuring.HasSameDecisions(proven) || measuring[keda].Equal(proven[keda], "dev", "2.0.0") {
		t.Error("the end of a wave must be a difference for its runtimes")
	}
	spec.OnFailure, given.Rollout = fleet.OnFailureStop, ""
	if !gates(fine, slow).HasWaveEnded(keda, "dev", given, "2.0.0") {
		t.Error("a failed wave must have ended")
	}
}
