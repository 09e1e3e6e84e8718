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

// The only runtime of the first wave leaves the channel, for example because its admin removes the module or its Kyma
// is deleted. Four other runtimes wait for the next wave.
func TestWaveThatLosesItsOnlyRuntimeWaits(t *testing.T) {
	waves := map[string]func(*fleet.Wave){
		"selector": func(*fleet.Wave) {},
		"count":    func(w *fleet.Wave) { w.Selector, w.Count = nil, new(int32(1)) },
		"percent":  func(w *fleet.Wave) { w.Selector, w.Percent = nil, new(int32(10)) },
		"percent, approval to start": func(w *fleet.Wave) {
			w.Selector, w.Percent, w.Approval = nil, new(int32(10)), true
		},
	}
	moments := map[string]func(Runtime) Runtime{
		"before the bundle": func(r Runtime) Runtime { return r },
		"without a report": func(r Runtime) Runtime {
			r = grantedAgo(r, 0)
			r.IsCurrent = false
			return r
		},
		"not ready": func(r Runtime) Runtime {
			r = grantedAgo(r, 0)
			r.State = v1beta2.StateProcessing
			return r
		},
		"during the soak time": func(r Runtime) Runtime { return grantedAgo(r, 0) },
	}
	for kind, change := range waves {
		for moment, canary := range moments {
			t.Run(kind+", "+moment, func(t *testing.T) {
				spec := twoWaves()
				spec.Waves[0].Soak = minutes(60)
				change(&spec.Waves[0])
				if spec.Waves[0].Approval {
					spec.ApprovedWaves = []string{"development"}
				}
				runtimes := []Runtime{at("r-0", "dev", "1.0.0")}
				for i := range 4 {
					runtimes = append(runtimes, at(fmt.Sprint("r-", i+1), "prod", "1.0.0"))
				}
				var status fleet.RolloutStatus
				plan := func(minute int) Step {
					step := Plan(first, spec, status, runtimes, PlanInput{
						ChannelVersion: "2.0.0", Now: noon.Add(time.Duration(minute) * time.Minute),
					})
					status = step.Status
					return step
				}
				selected := -1
				for i, d := range plan(0).Decisions {
					if d.Version == "2.0.0" {
						selected = i
					}
				}
				runtimes[selected] = canary(runtimes[selected])
				plan(1)
				runtimes = append(runtimes[:selected:selected], runtimes[selected+1:]...)
				for _, d := range plan(2).Decisions {
					if d.Version != "1.0.0" {
						t.Errorf("another runtime gets version %s, rollout message %s", d.Version, status.Message)
					}
				}
				if status.State != fleet.RolloutWaiting || status.Waves[0].ProvenAt != nil {
					t.Errorf("got rollout state %s: %s, want Waiting", status.State, status.Message)
				}
				if spec.Waves[0].Approval != strings.Contains(status.Message, "set allowEmpty") {
					t.Errorf("got message %q", status.Message)
				}
				if spec.Waves[0].AllowEmpty = true; plan(3).Decisions[3].Version != "2.0.0" {
					t.Errorf("with allowEmpty: got rollout state %s: %s", status.State, status.Message)
				}
			})
		}
	}
}

// The first wave was skipped because it was empty, and the second wave waits because it is empty, too. Then a runtime
// gets the labels of both waves, so it belongs to the skipped wave.
func TestRuntimeInASkippedWaveMustProveTheVersion(t *testing.T) {
	spec := twoWaves()
	skipped := *spec.Waves[0].DeepCopy()
	skipped.Name, skipped.AllowEmpty, skipped.Soak = "skipped", true, minutes(30)
	skipped.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "test"}}
	spec.Waves = []fleet.Wave{skipped, spec.Waves[0], spec.Waves[1]}
	runtimes := []Runtime{at("canary", "prod", "1.0.0"), at("prod", "prod", "1.0.0")}
	var status fleet.RolloutStatus
	plan := func(minute int, state fleet.RolloutState, message, canary, prod string) {
		t.Helper()
		now := noon.Add(time.Duration(minute) * time.Minute)
		for i := range runtimes {
			runtimes[i].LastReport.KnownAt = now
		}
		step := Plan(first, spec, status, runtimes, PlanInput{ChannelVersion: "2.0.0", Now: now})
		status = step.Status
		if status.State != state || !strings.Contains(status.Message, message) {
			t.Errorf("minute %d: got rollout state %s: %s, want %s with %q", minute, status.State, status.Message, state,
				message)
		}
		if got := step.Decisions; got[0].Version != canary || got[1].Version != prod {
			t.Errorf("minute %d: got versions %s and %s, want %s and %s", minute, got[0].Version, got[1].Version,
				canary, prod)
		}
	}
	plan(0, fleet.RolloutWaiting, "wave development selects no runtime", "1.0.0", "1.0.0")
	runtimes[0].Labels = map[string]string{"stage": "dev", "tier": "test"}
	const pending = "wave development: waits until a runtime from an earlier wave shows that 2.0.0 works"
	plan(1, fleet.RolloutProgressing, pending, "2.0.0", "1.0.0")
	runtimes[0] = grantedAgo(runtimes[0], -2)
	plan(31, fleet.RolloutProgressing, pending, "2.0.0", "1.0.0")
	silent := runtimes[0]
	runtimes[0].IsCurrent, runtimes[0].WaitsForWindow = false, true
	plan(33, fleet.RolloutWaiting, "wave development selects only runtimes from earlier waves", "2.0.0", "1.0.0")
	runtimes[0] = silent
	plan(34, fleet.RolloutProgressing, "wave production", "2.0.0", "2.0.0")
}

// The first wave contains all runtimes when the rollout starts, so the second wave is empty. A runtime that joins later
// belongs to the last wave.
func TestWaveThatNeverHadRuntimesIsSkippedOnceVersionIsProven(t *testing.T) {
	spec := twoWaves()
	second := *spec.Waves[0].DeepCopy()
	second.Name, second.Selector, second.Count = "second", nil, new(int32(5))
	spec.Waves = []fleet.Wave{spec.Waves[0], second, spec.Waves[1]}
	runtimes := []Runtime{at("dev", "dev", "1.0.0")}
	input := PlanInput{ChannelVersion: "2.0.0", Now: noon}
	status := Plan(first, spec, fleet.RolloutStatus{}, runtimes, input).Status
	runtimes = []Runtime{grantedAgo(runtimes[0], 0), at("late", "prod", "1.0.0")}
	if step := Plan(first, spec, status, runtimes, input); step.Decisions[1].Version != "2.0.0" {
		t.Errorf("got version %s for the late runtime, rollout message %s", step.Decisions[1].Version,
			step.Status.Message)
	}
}

// The only runtime of the first wave has been offline for a day.
func TestApprovalLetsRolloutSkipOfflineRuntimes(t *testing.T) {
	offline := at("dev", "dev", "1.0.0")
	offline.LastReport.KnownAt, offline.IsCurrent = noon.Add(-24*time.Hour), false
	for name, c := range map[string]struct {
		approved []string
		dev      Runtime
		want     string
	}{
		"offline runtime, not approved":   {nil, offline, "1.0.0"},
		"offline runtime, approved":       {[]string{"development"}, offline, "2.0.0"},
		"online runtime without a report": {[]string{"development"}, at("dev", "dev", "1.0.0"), "1.0.0"},
	} {
		spec := twoWaves()
		spec.ApprovedWaves = c.approved
		step := Plan(first, spec, fleet.RolloutStatus{}, []Runtime{c.dev, at("prod", "prod", "1.0.0")},
			PlanInput{ChannelVersion: "2.0.0", Now: noon})
		if got := step.Decisions[1].Version; got != c.want {
			t.Errorf("%s: got version %s for production, want %s: %s", name, got, c.want, step.Status.Message)
		}
	}
}

// The publisher cannot publish to 510 of 520 runtimes.
func TestPostponedRuntimesAreLimited(t *testing.T) {
	spec := twoWaves()
	spec.Waves = spec.Waves[1:]
	spec.Waves[0].MaxConcurrent = new(intstr.FromInt32(5))
	runtimes := make([]Runtime, 520)
	var before fleet.RolloutStatus
	var postponed []fleet.PostponedRuntime
	var granted []string
	for i := range runtimes {
		runtimes[i] = at(fmt.Sprintf("r-%03d", i), "prod", "1.0.0")
		runtimes[i].Unpublishable, runtimes[i].UnpublishableSince = i < 510, noon.Add(-time.Hour)
		switch {
		case i < 5:
			granted = append(granted, runtimes[i].ID)
		case i < 503:
			postponed = append(postponed, fleet.PostponedRuntime{
				Runtime: runtimes[i].ID, Since: metav1.NewTime(noon.Add(-time.Hour)),
			})
		}
	}
	before = Plan(first, spec, before, runtimes, PlanInput{ChannelVersion: "2.0.0", Now: noon}).Status
	before.Waves[0].Granted, before.Waves[0].Postponed = granted, postponed
	step := Plan(first, spec, before, runtimes, PlanInput{ChannelVersion: "2.0.0", Now: noon})
	if got := len(step.Status.Waves[0].Postponed); got != maxGranted {
		t.Errorf("got %d postponed runtimes, want %d", got, maxGranted)
	}
}
