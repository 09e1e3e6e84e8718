package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

var worksCheck = fleet.Check{Name: "works", CEL: &fleet.CELCheck{Expression: "true"}}

// definedCheckNamed returns the check of checkedWaves with this name, or worksCheck.
func definedCheckNamed(name string) fleet.Check {
	all := append(checkedWaves().Waves[0].Checks, worksCheck)
	return all[slices.IndexFunc(all, func(c fleet.Check) bool { return c.Name == name })]
}

// checkedWaves returns twoWaves with checks in the first wave.
func checkedWaves() fleet.RolloutSpec {
	spec, prometheus := twoWaves(), fleet.ServiceReference{Namespace: "monitoring", Name: "prometheus", Port: 9090}
	spec.Waves[0].Checks = []fleet.Check{
		{Name: "latency", PromQL: &fleet.PromQLCheck{Service: prometheus, Query: "x", Max: "0.5"}},
		{Name: "errors", CEL: &fleet.CELCheck{Expression: "true"}},
	}
	return spec
}

func measuredBy(r Runtime, outcomes ...v1beta2.CheckOutcome) Runtime {
	g := *r.Selection
	g.Checks = slices.Clone(outcomes)
	for i, o := range g.Checks {
		g.Checks[i].Definition = checks.DefinitionID(definedCheckNamed(o.Name))
	}
	r.Selection = &g
	return r
}

// progress is a test case: the expected state of a rollout with checkedWaves, 20 minutes after its start.
type progress struct {
	spec     func(*fleet.RolloutSpec)
	outcomes []v1beta2.CheckOutcome
	// minutesAgo is the number of minutes since the first runtime was updated.
	minutesAgo int
	state      fleet.RolloutState
	message    string
	next       bool // true if production can be updated
}

func TestChecksDecideWhetherAWaveIsProven(t *testing.T) {
	fine := v1beta2.CheckOutcome{Name: "errors", Result: v1beta2.CheckPassed}
	fast := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckPassed, Value: "0.2", Before: "0.2"}
	slow := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckFailed, Value: "0.9", Before: "0.2"}
	blind := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckInconclusive, Message: "no data"}
	with := func(outcomes ...v1beta2.CheckOutcome) []v1beta2.CheckOutcome { return outcomes }
	approve := func(s *fleet.RolloutSpec) { s.ApprovedWaves = []string{"development"} }
	began := func(s *fleet.RolloutSpec) { approve(s); s.Waves[0].Approval = true }
	onlyErrors := func(s *fleet.RolloutSpec) { s.Waves[0].Checks = s.Waves[0].Checks[1:] }
	const going, waiting, back = fleet.RolloutProgressing, fleet.RolloutWaiting, fleet.RolloutRollingBack
	const slowInDev = "maxFailures allows 0; check latency failed in dev (0.9, 0.2 before the upgrade)"
	const blindInDev = "checks are not Passed in dev (check latency is Inconclusive: no data)"
	const orApprove = "; correct the cause, or approve the wave"
	const orRemove = "; correct the cause, or remove the check"
	for name, c := range map[string]progress{
		"all checks passed":                  {nil, with(fine, fast), 5, going, "wave production", true},
		"failed check":                       {nil, with(fine, slow), 5, back, slowInDev, false},
		"failed check in an approved wave":   {approve, with(fine, slow), 5, back, slowInDev, false},
		"check without a result":             {nil, with(fine), 5, going, "check latency has no result", false},
		"inconclusive check that still runs": {nil, with(fine, blind), 5, going, blindInDev, false},
		"inconclusive check after all measurements": {
			nil, with(fine, blind), 15, waiting, blindInDev + orApprove, false,
		},
		"inconclusive check in an approved wave": {approve, with(fine, blind), 15, going, "wave production", true},
		"inconclusive check in a wave that was approved to start": {
			began, with(fine, blind), 15, waiting, blindInDev + orRemove, false,
		},
		"result of a check that is not required": {onlyErrors, with(fine, slow), 5, going, "wave production", true},
	} {
		t.Run(name, func(t *testing.T) {
			spec := checkedWaves()
			if c.spec != nil {
				c.spec(&spec)
			}
			first, step := twoSteps(spec, measuredBy(grantedAgo(at("dev", "dev", ""), c.minutesAgo), c.outcomes...))
			if d := first.Decisions[0]; d != (Decision{Version: "2.0.0", Checks: 1}) {
				t.Fatalf("development: got decision %+v, want version 2.0.0 with checks", d)
			}
			if step.Status.State != c.state || !strings.Contains(step.Status.Message, c.message) {
				t.Errorf("got rollout state %s: %s, want %s: %s", step.Status.State, step.Status.Message, c.state,
					c.message)
			}
			if got := step.Decisions[1].Version == "2.0.0"; got != c.next {
				t.Errorf("got version %s for production, want the promoted version %t", step.Decisions[1].Version,
					c.next)
			}
		})
	}
}

func twoSteps(spec fleet.RolloutSpec, dev Runtime) (began, later Step) {
	prod, situation := at("prod", "prod", "1.0.0"), PlanInput{ChannelVersion: "2.0.0", Now: noon.Add(-20 * time.Minute)}
	began = Plan(first, spec, fleet.RolloutStatus{}, []Runtime{at("dev", "dev", "1.0.0"), prod}, situation)
	situation.Now = noon
	return began, Plan(first, spec, began.Status, []Runtime{dev, prod}, situation)
}

func TestFailedCheckStaysInTheStatusAfterRollback(t *testing.T) {
	spec, prod := checkedWaves(), at("prod", "prod", "1.0.0")
	slow := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckFailed, Value: "0.9", Before: "0.2"}
	dev := measuredBy(grantedAgo(at("dev", "dev", ""), 5), slow)
	_, failed := twoSteps(spec, dev)
	dev.Version, dev.Selection = "1.0.0", &v1beta2.GivenVersion{Rollout: first}
	back := Plan(first, spec, failed.Status, []Runtime{dev, prod}, PlanInput{ChannelVersion: "2.0.0", Now: noon})
	want := fleet.CheckSummary{
		Name: "latency", Failed: 1,
		Median: "0.9", MedianBefore: "0.2", Worst: "0.9", WorstBefore: "0.2", WorstRuntime: "dev",
	}
	if checks := back.Status.Waves[0].Checks; len(checks) != 2 || checks[0] != want || checks[1].Inconclusive != 1 {
		t.Errorf("got checks %+v, want the failed check %+v", checks, want)
	}
	message := back.Status.Message
	if back.Status.State != fleet.RolloutRolledBack || !strings.Contains(message, "0.9, 0.2 before the upgrade") {
		t.Errorf("got rollout state %s: %s, want RolledBack with the values", back.Status.State, back.Status.Message)
	}
	if check := back.Status.Failures[0].Check; check != "latency" {
		t.Errorf("the failure names check %q, want latency", check)
	}
	if reason := back.Status.Failures[0].Reason; reason != "check latency is Failed: 0.9, 0.2 before the upgrade" {
		t.Errorf("got failure reason %q, want the failed check with its values", reason)
	}
}

// With maxIncreasePercent, the check fails in a runtime whose value is lower than another runtime's value.
func TestWorstCheckValueComesFromAFailedRuntime(t *testing.T) {
	spec := checkedWaves()
	busy := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckPassed, Value: "0.9", Before: "0.9"}
	slow := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckFailed, Value: "0.4", Before: "0.1"}
	runtimes := []Runtime{
		measuredBy(grantedAgo(at("busy", "dev", ""), 5), busy), measuredBy(grantedAgo(at("slow", "dev", ""), 5), slow),
	}
	step := Plan(first, spec, fleet.RolloutStatus{}, runtimes, PlanInput{ChannelVersion: "2.0.0", Now: noon})
	got := step.Status.Waves[0].Checks[0]
	if got.WorstRuntime != "slow" || got.Worst != "0.4" || got.WorstBefore != "0.1" {
		t.Errorf("got worst value %s (%s before) of runtime %s, want the failed runtime", got.Worst, got.WorstBefore,
			got.WorstRuntime)
	}
}

func TestWaveWithChecksWaitsForAgentsWithSupport(t *testing.T) {
	spec := checkedWaves()
	old := at("dev", "dev", "1.0.0")
	old.LacksChecks = true
	fleetOf := []Runtime{old, at("prod", "prod", "1.0.0")}
	step := Plan(first, spec, fleet.RolloutStatus{}, fleetOf, PlanInput{ChannelVersion: "2.0.0", Now: noon})
	message := step.Status.Message
	if step.Status.State != fleet.RolloutWaiting ||
		!strings.Contains(message, "dev (its agent does not support checks)") {
		t.Errorf("got rollout state %s: %s, want Waiting", step.Status.State, step.Status.Message)
	}
	if d := step.Decisions[0]; d.Version != "1.0.0" || !strings.Contains(d.HeldReason, "agent that supports checks") {
		t.Errorf("runtime with an old agent: got decision %+v, want version 1.0.0", d)
	}
	spec.ApprovedWaves = []string{"development"}
	approved := Plan(first, spec, step.Status, fleetOf, PlanInput{ChannelVersion: "2.0.0", Now: noon})
	if d := approved.Decisions[0]; d != (Decision{Version: "2.0.0"}) {
		t.Errorf("after the approval: got decision %+v, want version 2.0.0", d)
	}
}

// An earlier rollout has updated the runtime, so its agent has not run the current rollout's checks.
func TestMissingMeasurementsDoNotProveAWave(t *testing.T) {
	spec := checkedWaves()
	dev := grantedAgo(at("dev", "dev", ""), 5)
	dev.Selection.Rollout, dev.Selection.Ready = "another", true
	both := []Runtime{dev, at("prod", "prod", "1.0.0")}
	step := Plan(first, spec, fleet.RolloutStatus{}, both, PlanInput{ChannelVersion: "2.0.0", Now: noon})
	if step.Status.State != fleet.RolloutWaiting || step.Decisions[1].Version != "1.0.0" {
		t.Errorf("got rollout state %s: %s, version %s for production, want Waiting and 1.0.0", step.Status.State,
			step.Status.Message, step.Decisions[1].Version)
	}
}

func TestGatesWithDifferentChecksAreNotEqual(t *testing.T) {
	gate := func(bound string) Gates {
		spec := checkedWaves()
		spec.Waves[0].Checks[0].PromQL.Max = bound
		runtimes := []Runtime{at("dev", "dev", "1.0.0"), at("prod", "prod", "1.0.0")}
		step := Plan(first, spec, fleet.RolloutStatus{}, runtimes, PlanInput{ChannelVersion: "2.0.0", Now: noon})
		return Gates{keda: NewGate(&fleet.Rollout{Spec: spec}, step, runtimes)}
	}
	a, same, other := gate("0.5"), gate("0.5"), gate("0.6")
	if !a.HasSameDecisions(same) || !a[keda].Equal(same[keda], "dev", "1.0.0") {
		t.Error("equal gates are reported as different")
	}
	if a.HasSameDecisions(other) || a[keda].Equal(other[keda], "dev", "1.0.0") ||
		!a[keda].Equal(other[keda], "prod", "1.0.0") {
		t.Error("gates with different checks must differ only for runtimes with checks")
	}
	checks, isSet := a.Checks(keda, a[keda].Decide("dev", "1.0.0"))
	if !isSet || len(checks.Checks) != 2 || checks.Checks[0].Name != "errors" ||
		checks.Duration.Duration != 10*time.Minute {
		t.Errorf("got checks %+v, want two for 10 minutes", checks)
	}
	if _, isSet := a.Checks(keda, a[keda].Decide("prod", "1.0.0")); isSet {
		t.Error("a runtime that does not get the promoted version gets its checks")
	}
}

func TestWavesWithInvalidChecksAreRefused(t *testing.T) {
	spec := checkedWaves()
	spec.Waves[0].Checks[0].Name = "Latency"
	if err := CheckCourse(spec.Course); err == nil || !strings.HasPrefix(err.Error(), "waves[0].checks[0].name") {
		t.Errorf("got %v, want an error about waves[0].checks[0].name", err)
	}
}

func TestUnchangedCheckResultsCauseNoWrites(t *testing.T) {
	policy := policies("careful")
	policy[0].Spec.Waves = []fleet.Wave{{
		Name: "all", Percent: new(int32(100)), Soak: metav1.Duration{Duration: time.Hour},
		Checks: []fleet.Check{worksCheck},
	}}
	runtimes := make([]Runtime, 10_000)
	for i := range runtimes {
		runtimes[i] = at(fmt.Sprint("runtime-", i), "prod", "1.0.0")
	}
	all := EvaluateAll(policy, nil, map[Track]Followers{keda: {"2.0.0", runtimes}}, noon).Create
	results := []v1beta2.CheckResult{v1beta2.CheckPassed, v1beta2.CheckInconclusive}
	for i := range runtimes {
		outcome := v1beta2.CheckOutcome{Name: "works", Result: results[i%2], Value: fmt.Sprint(i)}
		runtimes[i] = measuredBy(grantedAgo(runtimes[i], 1), outcome)
		runtimes[i].Selection.Ready = true
	}
	stored := []fleet.Rollout{*all[0]}
	stored[0].ResourceVersion = "7"
	next := func(now time.Time) []*fleet.Rollout {
		return EvaluateAll(policy, stored, map[Track]Followers{keda: {"2.0.0", runtimes}}, now).Update
	}
	first := next(noon)
	if len(first) != 1 || first[0].Status.Waves[0].Checks[0].Passed != 5_000 {
		t.Fatalf("got updates %+v, want the results of all checks", first)
	}
	stored[0].Status = first[0].Status
	if again := next(noon.Add(time.Minute)); len(again) > 0 {
		t.Errorf("results without a change updated the status from %+v to %+v", stored[0].Status, again[0].Status)
	}
	writes := writesWithin(policy, stored[0], runtimes[:2_000], 100)
	if writes > 4 { // new counts after the fleet shrank, the end of the soak time, and an exceeded estimate
		t.Errorf("results without a change caused %d writes in 100 minutes, want at most 4", writes)
	}
	runtimes[0].Selection.Checks[0].Result = v1beta2.CheckInconclusive
	if changed := next(noon.Add(time.Minute)); len(changed) != 1 {
		t.Errorf("got %d updates for a changed result, want 1", len(changed))
	}
}

// writesWithin evaluates a rollout once per minute and returns the number of status updates. Reports arrive in each
// minute and do not change.
func writesWithin(policy []fleet.RolloutPolicy, stored fleet.Rollout, runtimes []Runtime, minutes int) (writes int) {
	all := []fleet.Rollout{stored}
	runtimes = slices.Clone(runtimes)
	for k := range minutes {
		now := noon.Add(time.Duration(k)*time.Minute + 10*time.Second)
		for i := range runtimes {
			runtimes[i].LastReport.KnownAt = now
		}
		for _, r := range EvaluateAll(policy, all, map[Track]Followers{keda: {"2.0.0", runtimes}}, now).Update {
			all[0].Status = r.Status
			writes++
		}
	}
	return writes
}

func TestRemovedChecksAreRemovedFromSelectedRuntimes(t *testing.T) {
	spec := checkedWaves()
	dev := grantedAgo(at("dev", "dev", ""), 5)
	began, _ := twoSteps(spec, dev)
	runtimes := []Runtime{dev, at("prod", "prod", "1.0.0")}
	spec.Waves[0].Checks = nil
	step := Plan(first, spec, began.Status, runtimes, PlanInput{ChannelVersion: "2.0.0", Now: noon})
	gates := Gates{keda: NewGate(&fleet.Rollout{Spec: spec}, step, runtimes)}
	if checks, isSet := gates.Checks(keda, gates[keda].Decide("dev", "2.0.0")); !isSet || len(checks.Checks) > 0 {
		t.Errorf("got checks %+v (set: %t), want an empty list that replaces the current checks", checks, isSet)
	}
}

// A rollout stopped because of a failed check. Its retry must still wait for the runtime with the failed check.
func TestRetryWaitsForFailedChecksOfTheStoppedRollout(t *testing.T) {
	const retry = "keda-regular-2"
	fine := v1beta2.CheckOutcome{Name: "errors", Result: v1beta2.CheckPassed}
	slow := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckFailed, Value: "0.9", Before: "0.2"}
	fast := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckPassed, Value: "0.2"}
	stopped := measuredBy(grantedAgo(at("slow", "dev", ""), 5), fine, slow)
	stopped.Selection.Ready = true
	updated := measuredBy(grantedAgo(at("fast", "dev", ""), 5), fine, fast)
	updated.Selection.Rollout, updated.Selection.Ready = retry, true
	prod := at("prod", "prod", "1.0.0")
	const slowCheck = "the version already failed in slow (check latency is Failed: 0.9, 0.2 before the upgrade)"
	approve := func(s *fleet.RolloutSpec) { s.ApprovedWaves = []string{"development"} }
	for name, c := range map[string]struct {
		change   func(*fleet.RolloutSpec)
		runtimes []Runtime
		proven   bool // true if an earlier rollout proved the version
		next     bool // true if production can be updated
	}{
		"failed check in the only canary":     {nil, []Runtime{stopped, prod}, false, false},
		"failed check in one of two canaries": {nil, []Runtime{stopped, prod, updated}, false, false},
		"approved wave":                       {approve, []Runtime{stopped, prod, updated}, false, true},
		"allowed failure": {
			func(s *fleet.RolloutSpec) { s.Waves[0].MaxFailures = new(intstr.FromInt32(1)) },
			[]Runtime{stopped, prod, updated}, false, true,
		},
		"removed check": {
			func(s *fleet.RolloutSpec) { s.Waves[0].Checks = s.Waves[0].Checks[1:] }, []Runtime{stopped, prod}, false, true,
		},
		"version proven by an earlier rollout": {nil, []Runtime{stopped, prod, updated}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			spec := checkedWaves()
			if c.change != nil {
				c.change(&spec)
			}
			step := Plan(retry, spec, fleet.RolloutStatus{}, c.runtimes,
				PlanInput{ChannelVersion: "2.0.0", Now: noon, IsProven: c.proven})
			if got := step.Decisions[1].Version == "2.0.0"; got != c.next {
				t.Errorf("got version %s for production, rollout is %s: %s", step.Decisions[1].Version, step.Status.State,
					step.Status.Message)
			}
			waits := step.Status.State == fleet.RolloutWaiting && strings.Contains(step.Status.Message, slowCheck)
			if waits == c.next {
				t.Errorf("got rollout state %s: %s", step.Status.State, step.Status.Message)
			}
		})
	}
}

// A rollout was stopped because one of its two canaries failed. The other canary is ready.
func TestRetryWaitsForFailedRuntimesOfTheStoppedRollout(t *testing.T) {
	ready := grantedAgo(at("ready", "dev", ""), 20)
	ready.Selection.Ready = true
	for name, c := range map[string]struct {
		change func(*Runtime, *fleet.RolloutSpec)
		want   string // the rollout's message contains it; empty if production can be updated
	}{
		"state Error": {
			func(r *Runtime, _ *fleet.RolloutSpec) { r.State, r.Message = v1beta2.StateError, "no quota" },
			"the version already failed in other (module is Error: no quota); correct the cause, or approve the wave",
		},
		"state Error after the module was ready": {
			func(r *Runtime, _ *fleet.RolloutSpec) { r.State, r.Selection.Ready = v1beta2.StateError, true },
			"the version already failed in other (module is Error: ",
		},
		"not ready after the deadline": {
			func(r *Runtime, _ *fleet.RolloutSpec) { r.State = v1beta2.StateProcessing },
			"the version already failed in other (not ready 10m0s after ",
		},
		"state Error in a wave that needs approval to start": {
			func(r *Runtime, s *fleet.RolloutSpec) {
				r.State, s.Waves[0].Approval, s.ApprovedWaves = v1beta2.StateError, true, []string{"development"}
			}, "; correct the cause, or increase maxFailures in spec.waves",
		},
		"state Error, approved wave": {
			func(r *Runtime, s *fleet.RolloutSpec) {
				r.State, s.ApprovedWaves = v1beta2.StateError, []string{"development"}
			},
			"",
		},
		"state Error, allowed failure": {
			func(r *Runtime, s *fleet.RolloutSpec) {
				r.State, s.Waves[0].MaxFailures = v1beta2.StateError, new(intstr.FromInt32(1))
			}, "",
		},
		"not ready, symptom not in failsOn": {
			func(r *Runtime, s *fleet.RolloutSpec) {
				r.State, s.Waves[0].FailsOn = v1beta2.StateProcessing, []fleet.Symptom{fleet.SymptomError}
			}, "",
		},
		"ready again": {func(*Runtime, *fleet.RolloutSpec) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec, other := twoWaves(), grantedAgo(at("other", "dev", ""), 20)
			c.change(&other, &spec)
			step := Plan("keda-regular-2", spec, fleet.RolloutStatus{}, []Runtime{ready, other, at("prod", "prod", "1.0.0")},
				PlanInput{ChannelVersion: "2.0.0", Now: noon})
			if got := step.Decisions[2].Version == "2.0.0"; got != (c.want == "") {
				t.Errorf("got version %s for production, rollout is %s: %s", step.Decisions[2].Version, step.Status.State,
					step.Status.Message)
			}
			waits := step.Status.State == fleet.RolloutWaiting && strings.Contains(step.Status.Message, c.want)
			if waits != (c.want != "") {
				t.Errorf("got rollout state %s: %s", step.Status.State, step.Status.Message)
			}
		})
	}
}
