package rollout

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// One runtime must not be able to stop a rollout if minReady does not require all runtimes.
func TestMinReadyAllowsRuntimesWithoutPassedChecks(t *testing.T) {
	fine := v1beta2.CheckOutcome{Name: "errors", Result: v1beta2.CheckPassed}
	fast := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckPassed}
	blind := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckInconclusive, Message: "no data"}
	inconclusive := func(minutesAgo int) func(Runtime) Runtime {
		return func(r Runtime) Runtime {
			return measuredBy(grantedAgo(at(r.ID, "dev", ""), minutesAgo), fine, blind)
		}
	}
	outdated := func(r Runtime) Runtime {
		r = at(r.ID, "dev", "1.0.0")
		r.LacksChecks = true
		return r
	}
	for name, c := range map[string]struct {
		minReady *intstr.IntOrString
		count    int
		change   func(Runtime) Runtime
		next     bool
	}{
		"inconclusive check":                                 {new(intstr.FromString("90%")), 2, inconclusive(15), true},
		"more inconclusive checks than minReady allows":      {new(intstr.FromString("90%")), 3, inconclusive(15), false},
		"inconclusive check that still runs":                 {new(intstr.FromString("90%")), 1, inconclusive(5), false},
		"inconclusive check without minReady":                {nil, 1, inconclusive(15), false},
		"agent without support for checks":                   {new(intstr.FromString("90%")), 1, outdated, true},
		"agent without support for checks, without minReady": {nil, 1, outdated, false},
	} {
		t.Run(name, func(t *testing.T) {
			spec := checkedWaves()
			spec.Waves[0].MinReady = c.minReady
			var before, after []Runtime
			for i := range 20 {
				id := fmt.Sprint("dev-", i)
				before = append(before, at(id, "dev", "1.0.0"))
				r := measuredBy(grantedAgo(at(id, "dev", ""), 15), fine, fast)
				if i < c.count {
					r = c.change(r)
				}
				after = append(after, r)
			}
			prod, input := at("prod", "prod", "1.0.0"), PlanInput{ChannelVersion: "2.0.0", Now: noon.Add(-20 * time.Minute)}
			began := Plan(first, spec, fleet.RolloutStatus{}, append(before, prod), input)
			input.Now = noon
			step := Plan(first, spec, began.Status, append(after, prod), input)
			if got := step.Decisions[20].Version == "2.0.0"; got != c.next {
				t.Errorf("the next wave starts: got %t, want %t; rollout %s: %s", got, c.next, step.Status.State,
					step.Status.Message)
			}
		})
	}
}

func TestMinReadyFreesTheSlotOfAnInconclusiveRuntime(t *testing.T) {
	blind := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckInconclusive, Message: "no data"}
	for minReady, want := range map[string]int{"50%": 1, "100%": 0} {
		spec := checkedWaves()
		spec.Waves[0].MinReady, spec.Waves[0].MaxConcurrent = new(intstr.FromString(minReady)), new(intstr.FromInt32(1))
		runtimes := []Runtime{at("dev-0", "dev", "1.0.0"), at("dev-1", "dev", "1.0.0")}
		input := PlanInput{ChannelVersion: "2.0.0", Now: noon.Add(-20 * time.Minute)}
		began := Plan(first, spec, fleet.RolloutStatus{}, runtimes, input)
		chosen := 0
		if began.Decisions[1].Version == "2.0.0" {
			chosen = 1
		}
		runtimes[chosen] = measuredBy(grantedAgo(at(runtimes[chosen].ID, "dev", ""), 15), blind)
		input.Now = noon
		step := Plan(first, spec, began.Status, runtimes, input)
		if got := len(step.Status.Waves[0].Granted); got != want {
			t.Errorf("minReady %s: got %d selected runtimes, want %d; rollout %s: %s", minReady, got, want,
				step.Status.State, step.Status.Message)
		}
	}
}

// minReady cannot be met in an empty wave.
func TestMinReadyDoesNotStopAWaveWithoutRuntimesToUpdate(t *testing.T) {
	spec := checkedWaves()
	spec.Waves[0].MinReady = new(intstr.FromInt32(1))
	runtimes := []Runtime{at("prod", "prod", "1.0.0")}
	for name, change := range map[string]func(*fleet.RolloutSpec){
		"empty wave":          func(s *fleet.RolloutSpec) { s.Waves[0].AllowEmpty = true },
		"approved empty wave": func(s *fleet.RolloutSpec) { s.ApprovedWaves = []string{s.Waves[0].Name} },
	} {
		spec := *spec.DeepCopy()
		change(&spec)
		step := Plan(first, spec, fleet.RolloutStatus{}, runtimes, PlanInput{ChannelVersion: "2.0.0", Now: noon})
		if step.Decisions[0].Version != "2.0.0" {
			t.Errorf("%s: the next wave does not start: %s", name, step.Status.Message)
		}
	}
}

// When another publisher has taken over, a report that it has not read yet can contain a failed check.
func TestMinReadyDoesNotSkipUnreadReports(t *testing.T) {
	spec := checkedWaves()
	spec.Waves[0].MinReady = new(intstr.FromInt32(1))
	fine := v1beta2.CheckOutcome{Name: "errors", Result: v1beta2.CheckPassed}
	fast := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckPassed}
	blind := v1beta2.CheckOutcome{Name: "latency", Result: v1beta2.CheckInconclusive}
	runtimes := []Runtime{at("a", "dev", "1.0.0"), at("b", "dev", "1.0.0"), at("c", "prod", "1.0.0")}
	input := PlanInput{ChannelVersion: "2.0.0", Now: noon.Add(-20 * time.Minute)}
	began := Plan(first, spec, fleet.RolloutStatus{}, runtimes, input)
	input.Now = noon
	runtimes[0] = measuredBy(grantedAgo(at("a", "dev", ""), 15), fine, fast)
	runtimes[1] = measuredBy(grantedAgo(at("b", "dev", ""), 15), fine, blind)
	for isUnread, want := range map[bool]string{true: "1.0.0", false: "2.0.0"} {
		if runtimes[1].LastReport.PossibleAt = (time.Time{}); isUnread {
			runtimes[1].LastReport.PossibleAt = noon
		}
		if d := Plan(first, spec, began.Status, runtimes, input).Decisions[2]; d.Version != want {
			t.Errorf("unread report %t: got version %s in the next wave, want %s", isUnread, d.Version, want)
		}
	}
}
