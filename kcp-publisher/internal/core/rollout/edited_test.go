package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestWaveForRemainingRuntimesGetsAUniqueName(t *testing.T) {
	course := twoWaves().Course
	course.Waves[1].Percent = new(int32(50))
	for _, c := range []struct{ last, want string }{{"production", RestWave}, {RestWave, RestWave + "-2"}} {
		course.Waves[1].Name = c.last
		waves := completeCourse(course).Waves
		if got := waves[len(waves)-1].Name; len(waves) != 3 || got != c.want {
			t.Errorf("last wave %s: got %d waves with the last wave %s, want %s", c.last, len(waves), got, c.want)
		}
		if err := CheckCourse(completeCourse(course)); err != nil {
			t.Error(err)
		}
	}
}

// The test edits the waves of a running rollout, as the rollout guide recommends after a wrong selector.
func TestEditedWavesCannotSkipRuntimes(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fleet.RolloutSpec)
		want string
	}{
		"selector replaced by a count": {func(s *fleet.RolloutSpec) {
			s.Waves[0].Selector, s.Waves[0].Count = nil, new(int32(2))
		}, "spec.waves[0]: the wave development had a selector"},
		"last wave replaced by a selector": {func(s *fleet.RolloutSpec) {
			s.Waves[1].Percent = nil
			s.Waves[1].Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "test"}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := twoWaves()
			spec.Waves[0].Selector.MatchLabels["stage"] = "typo"
			var runtimes []Runtime
			for i := range 5 {
				runtimes = append(runtimes, at(fmt.Sprintf("prod-%d", i), "prod", "1.0.0"))
			}
			situation := PlanInput{ChannelVersion: "2.0.0", Now: noon}
			status := Plan(first, spec, fleet.RolloutStatus{}, runtimes, situation).Status
			c.edit(&spec)
			for range 3 {
				situation.Now = situation.Now.Add(time.Hour)
				step := Plan(first, spec, status, runtimes, situation)
				status = step.Status
				for i, d := range step.Decisions {
					if d.Version != "1.0.0" && c.want != "" {
						t.Fatalf("runtime %s gets %s, want its version", runtimes[i].ID, d.Version)
					}
				}
			}
			if c.want != "" && (status.State != fleet.RolloutWaiting || !strings.Contains(status.Message, c.want)) {
				t.Errorf("got %s: %s, want a rollout that waits with %q", status.State, status.Message, c.want)
			}
		})
	}
}

func TestRuntimeWithAnOlderVersionDoesNotStartARollout(t *testing.T) {
	policy := &fleet.RolloutPolicy{Spec: fleet.RolloutPolicySpec{Course: twoWaves().Course}}
	var runtimes []Runtime
	for i := range 99 {
		runtimes = append(runtimes, at(fmt.Sprint("r-", i), "prod", "2.0.0"))
	}
	runtimes = append(runtimes, at("old", "prod", "1.0.0"))
	if spec := nextRollout(policy, keda, "2.0.0", nil, runtimes); spec != nil {
		t.Errorf("got rollout %s to %s, want none", spec.From, spec.To)
	}
	if spec := nextRollout(policy, keda, "3.0.0", nil, runtimes); spec == nil || spec.From != "2.0.0" {
		t.Errorf("got rollout %+v, want one from 2.0.0", spec)
	}
}

func TestDeletingTheLatestRolloutsRestartsThePromotion(t *testing.T) {
	policy := &fleet.RolloutPolicy{Spec: fleet.RolloutPolicySpec{Course: twoWaves().Course}}
	superseded := &fleet.Rollout{
		Spec:   fleet.RolloutSpec{From: "1.0.0", To: "2.0.0", Revision: 1},
		Status: fleet.RolloutStatus{State: fleet.RolloutSuperseded},
	}
	spec := nextRollout(policy, keda, "2.0.0", superseded, []Runtime{at("r", "prod", "1.0.0")})
	if spec == nil || spec.From != "1.0.0" || spec.Revision != 2 {
		t.Errorf("got %+v, want a second rollout from 1.0.0", spec)
	}
}

func TestRevertedChannelWithoutAPolicyRollsRuntimesBack(t *testing.T) {
	ended := func(state fleet.RolloutState, undo bool) *fleet.Rollout {
		return &fleet.Rollout{
			Spec:   fleet.RolloutSpec{From: "1.0.0", To: "2.0.0", Undo: undo},
			Status: fleet.RolloutStatus{State: state, VersionWithoutPolicy: "3.0.0"},
		}
	}
	for name, c := range map[string]struct {
		channel string
		state   fleet.RolloutState
		undo    bool
		want    bool
	}{
		"channel returns to the last good version":            {"1.0.0", fleet.RolloutStopped, false, false},
		"operator requests an undo":                           {"3.0.0", fleet.RolloutStopped, true, false},
		"channel gets a version other than the last good one": {"3.0.0", fleet.RolloutStopped, false, true},
		"channel gets another version after an undo":          {"3.0.0", fleet.RolloutRolledBack, true, true},
		"channel returns to the last good version after undo": {"1.0.0", fleet.RolloutRolledBack, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := needsNoRollout(ended(c.state, c.undo), c.channel, nil); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

func TestRefusedRolloutHoldsOnlyItsModuleAndChannel(t *testing.T) {
	spec := twoWaves()
	refused := &fleet.Rollout{Spec: spec}
	refused.Name = "keda-regular-1"
	round := Round{Gates: Gates{}, Create: []*fleet.Rollout{refused}, Newest: []*fleet.Rollout{refused}}
	round.HoldRefused(refused, "rollout keda-regular-1 cannot be created")
	gate := round.Gates[Track{Module: spec.Module, Channel: spec.Channel}]
	for own, want := range map[string]string{"1.0.0": "1.0.0", "2.0.0": "2.0.0", "": "1.0.0"} {
		if d := gate.Decide("any", own); d.Version != want {
			t.Errorf("runtime with version %q: got %q, want %q", own, d.Version, want)
		}
	}
	if d := gate.Decide("any", "1.0.0"); !strings.Contains(d.HeldReason, "cannot be created") {
		t.Errorf("got message %q, want the reason", d.HeldReason)
	}
	if len(round.Create)+len(round.Newest) != 0 || !round.IsActive {
		t.Errorf("got %+v, want no rollout and another round", round)
	}
}

// The results of the old definition do not count: a stricter check must pass again, and a corrected check can pass.
func TestEditedCheckNeedsANewResult(t *testing.T) {
	fine := v1beta2.CheckOutcome{Name: "errors", Result: v1beta2.CheckPassed}
	for _, result := range []v1beta2.CheckResult{v1beta2.CheckPassed, v1beta2.CheckFailed} {
		spec := checkedWaves()
		runtimes := []Runtime{at("a", "dev", "1.0.0"), at("b", "prod", "1.0.0")}
		input := PlanInput{ChannelVersion: "2.0.0", Now: noon.Add(-20 * time.Minute)}
		began := Plan(first, spec, fleet.RolloutStatus{}, runtimes, input)
		input.Now = noon
		outcome := v1beta2.CheckOutcome{Name: "latency", Result: result}
		runtimes[0] = measuredBy(grantedAgo(at("a", "dev", ""), 15), fine, outcome)
		spec.Waves[0].Checks[0].PromQL.Max = "0.4"
		step := Plan(first, spec, began.Status, runtimes, input)
		if step.Decisions[1].Version == "2.0.0" || step.Status.State != fleet.RolloutProgressing &&
			step.Status.State != fleet.RolloutWaiting {
			t.Errorf("check %s: got version %s and rollout %s: %s, want a rollout that waits for a new result", result,
				step.Decisions[1].Version, step.Status.State, step.Status.Message)
		}
	}
}

// A failed runtime gets the labels of a wave that has not started yet.
func TestFailuresCountInAWaveThatHasNotStarted(t *testing.T) {
	spec := checkedWaves()
	spec.Waves[0].MaxFailures = new(intstr.FromInt32(1))
	slow := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckFailed}
	fine, fast := v1beta2.CheckOutcome{Name: "errors", Result: v1beta2.CheckPassed},
		v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckPassed}
	spec.Waves[1].Checks = spec.Waves[0].Checks
	runtimes := []Runtime{at("a", "dev", "1.0.0"), at("b", "dev", "1.0.0"), at("c", "prod", "1.0.0")}
	input := PlanInput{ChannelVersion: "2.0.0", Now: noon.Add(-20 * time.Minute)}
	began := Plan(first, spec, fleet.RolloutStatus{}, runtimes, input)
	input.Now = noon
	runtimes[0] = measuredBy(grantedAgo(at("a", "dev", ""), 15), fine, fast)
	runtimes[1] = measuredBy(grantedAgo(at("b", "prod", ""), 15), fine, slow)
	step := Plan(first, spec, began.Status, runtimes, input)
	if step.Decisions[2].Version == "2.0.0" || step.Status.State != fleet.RolloutRollingBack {
		t.Errorf("got version %s and rollout %s: %s, want a rollback", step.Decisions[2].Version, step.Status.State,
			step.Status.Message)
	}
}

// The rollout skips the empty first wave. Then all runtimes get the labels of this wave.
func TestSkippedWaveDoesNotProveTheVersion(t *testing.T) {
	spec := twoWaves()
	spec.Waves[0].AllowEmpty = true
	input := PlanInput{ChannelVersion: "2.0.0", Now: noon}
	began := Plan(first, spec, fleet.RolloutStatus{}, []Runtime{at("a", "prod", "1.0.0")}, input)
	input.Now = noon.Add(time.Minute)
	step := Plan(first, spec, began.Status, []Runtime{at("a", "dev", "1.0.0")}, input)
	if step.Status.State != fleet.RolloutProgressing || step.Decisions[0].Version != "2.0.0" {
		t.Fatalf("got rollout %s: %s, decisions %+v, want it to wait for the runtime", step.Status.State,
			step.Status.Message, step.Decisions)
	}
	step = Plan(first, spec, step.Status, []Runtime{grantedAgo(at("a", "dev", ""), 1)}, input)
	if step.Status.State != fleet.RolloutSucceeded {
		t.Errorf("got rollout %s: %s, want Succeeded after the report", step.Status.State, step.Status.Message)
	}
}
