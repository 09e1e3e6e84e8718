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
)

// TestUnresolvedRuntimeDoesNotCountTowardMaxConcurrent runs a wave of three runtimes with maxConcurrent 1. The promoted
// version cannot be resolved for the first runtime.
func TestUnresolvedRuntimeDoesNotCountTowardMaxConcurrent(t *testing.T) {
	spec := twoWaves()
	spec.Waves = spec.Waves[1:]
	spec.Waves[0].MaxConcurrent, spec.Waves[0].MaxDeferred = new(intstr.FromInt32(1)), new(intstr.FromInt32(0))
	runtimes := make([]Runtime, 3)
	for i := range runtimes {
		runtimes[i] = at(fmt.Sprint("r-", i), "prod", "1.0.0")
	}
	now, status := noon, fleet.RolloutStatus{}
	poll := func() (granted []int, tried string) {
		now = now.Add(2 * time.Minute)
		for i := range runtimes {
			runtimes[i].LastReport.KnownAt = now
		}
		step := Plan(first, spec, status, runtimes, PlanInput{ChannelVersion: "2.0.0", Now: now})
		status = step.Status
		for i, d := range step.Decisions {
			if d.Version == "2.0.0" && runtimes[i].Version != "2.0.0" {
				granted = append(granted, i)
			}
			if d.TriedVersion != "" {
				tried += runtimes[i].ID + "=" + d.TriedVersion
			}
		}
		return granted, tried
	}
	install := func(i int) {
		runtimes[i] = grantedAgo(runtimes[i], 0)
		runtimes[i].Selection.Time = metav1.NewTime(now)
	}
	begun, _ := poll()
	if len(begun) != 1 {
		t.Fatalf("at the start: got granted runtimes %v, want one", begun)
	}
	broken := &runtimes[begun[0]]
	broken.UnresolvedVersion, broken.Message = "2.0.0", "module keda: value region is not defined"
	if got, tried := poll(); len(got) > 0 || tried != broken.ID+"=2.0.0" {
		t.Fatalf("unresolved: got granted runtimes %v and tried versions %q", got, tried)
	}
	for range 2 {
		got, _ := poll()
		if len(got) != 1 || got[0] == begun[0] {
			t.Fatalf("after the slot was released: got granted runtimes %v, want one other runtime", got)
		}
		install(got[0])
	}
	if _, tried := poll(); status.State != fleet.RolloutWaiting || tried == "" ||
		!strings.Contains(status.Message, broken.ID+" (module keda: value region is not defined)") {
		t.Errorf("got rollout state %s, message %q, tried versions %q", status.State, status.Message, tried)
	}
	broken.UnresolvedVersion, broken.Message = "", ""
	if got, tried := poll(); !slices.Equal(got, begun) || tried != "" {
		t.Fatalf("resolved again: got granted runtimes %v and tried versions %q, want %v", got, tried, begun)
	}
	install(begun[0])
	if poll(); status.State != fleet.RolloutSucceeded {
		t.Errorf("got rollout state %s: %s, want %s", status.State, status.Message, fleet.RolloutSucceeded)
	}
}

func TestProblemWithAnotherVersionDoesNotDeferRuntime(t *testing.T) {
	r := at("r", "dev", "1.0.0")
	r.UnresolvedVersion = "1.0.0"
	step := Plan(first, twoWaves(), fleet.RolloutStatus{}, []Runtime{r}, PlanInput{ChannelVersion: "2.0.0", Now: noon})
	if d := step.Decisions[0]; d.Version != "2.0.0" || d.TriedVersion != "" {
		t.Errorf("got decision %+v, want version 2.0.0", d)
	}
}

// TestManyUnresolvedRuntimesDoNotCountTowardMaxConcurrent covers a wave whose status already lists as many postponed
// runtimes as it can.
func TestManyUnresolvedRuntimesDoNotCountTowardMaxConcurrent(t *testing.T) {
	spec := twoWaves()
	spec.Waves = spec.Waves[1:]
	spec.Waves[0].MaxConcurrent = new(intstr.FromInt32(1))
	status := Plan(first, spec, fleet.RolloutStatus{}, nil, PlanInput{ChannelVersion: "2.0.0", Now: noon}).Status
	runtimes := make([]Runtime, maxGranted+1)
	for i := range runtimes {
		runtimes[i] = at(fmt.Sprint("r-", i), "prod", "1.0.0")
		runtimes[i].LastReport.KnownAt, runtimes[i].UnresolvedVersion = noon, "2.0.0"
		if i < maxGranted {
			status.Waves[0].Postponed = append(status.Waves[0].Postponed,
				fleet.PostponedRuntime{Runtime: runtimes[i].ID, Since: metav1.NewTime(noon.Add(-time.Hour))})
		}
	}
	status.State, status.Waves[0].ProvenAt, status.FinishedAt = fleet.RolloutProgressing, nil, nil
	status.Waves[0].Granted = []string{runtimes[maxGranted].ID}
	situation := PlanInput{ChannelVersion: "2.0.0", Now: noon}
	step := Plan(first, spec, status, runtimes, situation)
	if w := step.Status.Waves[0]; len(w.Granted) > 0 || len(w.Postponed) != maxGranted {
		t.Errorf("got granted runtimes %v and %d postponed runtimes, want none and %d", w.Granted, len(w.Postponed),
			maxGranted)
	}
	written := &fleet.Rollout{Spec: spec, Status: step.Status}
	written.Name = first
	recorded := recordedStep(written, runtimes, situation)
	if !slices.Equal(step.Decisions, recorded.Decisions) {
		t.Error("the recorded step has other decisions")
	}
}
