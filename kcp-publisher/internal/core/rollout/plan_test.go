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
)

const first = "keda-regular-1"

func minutes(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Minute} }

// twoWaves is development first, then all others.
func twoWaves() fleet.RolloutSpec {
	return fleet.RolloutSpec{Policy: "careful", Module: "keda", Channel: "regular", Revision: 1, From: "1.0.0",
		To: "2.0.0", Course: fleet.Course{
			Waves: []fleet.Wave{
				{
					Name:     "development",
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "dev"}},
					Deadline: minutes(10), FailsOn: []fleet.Symptom{fleet.SymptomError, fleet.SymptomNotReady},
				},
				{
					Name: "production", Percent: new(int32(100)), Deadline: minutes(10),
					FailsOn: []fleet.Symptom{fleet.SymptomError},
				},
			},
			OfflineAfter: minutes(15),
		}}
}

func at(id, stage, version string) Runtime {
	return Runtime{
		ID: id, Labels: map[string]string{"stage": stage}, LastReport: noon, Version: version, Current: true,
		State: v1beta2.StateReady,
	}
}

func grantedAgo(r Runtime, minutesAgo int) Runtime {
	r.Version, r.Given = "2.0.0", &v1beta2.GivenVersion{
		Rollout: first, Time: metav1.NewTime(noon.Add(-time.Duration(minutesAgo) * time.Minute)),
	}
	return r
}

func TestPositionOfARuntimeInARollout(t *testing.T) {
	dev := grantedAgo(at("dev", "dev", ""), 20)
	for name, c := range map[string]struct {
		change  func(*Runtime)
		state   fleet.RolloutState
		message string
		next    bool // production may have the version
	}{
		"ready in exactly the bundle it was given": {
			func(*Runtime) {}, fleet.RolloutProgressing, "production", true,
		},
		"ready in another bundle": {
			func(r *Runtime) {
				r.Current, r.LastReport = false, noon.Add(-12*time.Minute)
			}, fleet.RolloutProgressing, "0 of 1", false,
		},
		"ready once and republished since": {
			func(r *Runtime) { r.Current, r.Given.Ready = false, true }, fleet.RolloutProgressing, "production", true,
		},
		"ready once and in trouble now": {
			func(r *Runtime) {
				r.Given.Ready, r.State = true, v1beta2.StateError
			}, fleet.RolloutRollingBack, "1 of 1 runtimes failed", false,
		},
		"in trouble": {
			func(r *Runtime) {
				r.State = v1beta2.StateError
			}, fleet.RolloutRollingBack, "1 of 1 runtimes failed", false,
		},
		"in trouble in another bundle": {
			func(r *Runtime) {
				r.State, r.Current, r.Given.Time = v1beta2.StateError, false, metav1.NewTime(noon)
			}, fleet.RolloutProgressing, "0 of 1", false,
		},
		"a warning that is no failure": {
			func(r *Runtime) {
				r.State, r.Given.Time = v1beta2.StateWarning, metav1.NewTime(noon)
			}, fleet.RolloutProgressing, "0 of 1", false,
		},
		"not ready after its deadline, and reporting": {
			func(r *Runtime) {
				r.State = v1beta2.StateProcessing
			}, fleet.RolloutRollingBack, "1 of 1 runtimes failed", false,
		},
		"not ready at its deadline, and silent since": {
			func(r *Runtime) {
				r.Current, r.LastReport = false, noon.Add(-11*time.Minute)
			}, fleet.RolloutProgressing, "0 of 1", false,
		},
		"silent for longer than it may be": {
			func(r *Runtime) {
				r.Current, r.LastReport = false, noon.Add(-time.Hour)
			}, fleet.RolloutProgressing, "0 of 1", false,
		},
		"at the version already, and not from this rollout": {
			func(r *Runtime) { r.Given = nil }, fleet.RolloutProgressing, "production", true,
		},
		"ahead of the version, which it shows nothing of": {
			func(r *Runtime) {
				r.Version, r.Given = "3.0.0", nil
			}, fleet.RolloutWaiting, "none shows that 2.0.0 works", false,
		},
		"at the version by a rollout that was superseded, and not ready": {
			func(r *Runtime) {
				r.Given.Rollout, r.Current = "another", false
			}, fleet.RolloutWaiting, "none shows that 2.0.0 works", false,
		},
		"at the version by a rollout that was superseded, and in trouble": {
			func(r *Runtime) {
				r.Given.Rollout, r.State = "another", v1beta2.StateError
			}, fleet.RolloutWaiting, "none shows that 2.0.0 works", false,
		},
		"not ready after its deadline, and nothing can be published": {
			func(r *Runtime) { r.Current, r.Unpublishable = false, true }, fleet.RolloutProgressing, "0 of 1", false,
		},
		"at the version by one superseded, ready once and in trouble now": {
			func(r *Runtime) {
				r.Given.Rollout, r.Given.Ready, r.State = "another", true, v1beta2.StateError
			}, fleet.RolloutWaiting, "none shows that 2.0.0 works", false,
		},
		"at the version by a rollout that was superseded, and ready": {
			func(r *Runtime) { r.Given.Rollout = "another" }, fleet.RolloutProgressing, "production", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := dev
			g := *dev.Given
			r.Given = &g
			c.change(&r)
			started := Plan(first, twoWaves(), fleet.RolloutStatus{},
				[]Runtime{at("dev", "dev", "1.0.0"), at("prod", "prod", "1.0.0")}, Situation{
					Channel: "2.0.0", Now: noon.Add(-20 * time.Minute),
				})
			step := Plan(first, twoWaves(), started.Status, []Runtime{r, at("prod", "prod", "1.0.0")},
				Situation{Channel: "2.0.0", Now: noon})
			if step.Status.State != c.state || !strings.Contains(step.Status.Message, c.message) {
				t.Errorf("the rollout is %s: %s", step.Status.State, step.Status.Message)
			}
			if got := step.Decisions[1].Version == "2.0.0"; got != c.next {
				t.Errorf("production may have %s", step.Decisions[1].Version)
			}
		})
	}
}

// A channel may go back to a version that every runtime is beyond. New runtimes would get it at once.
func TestUnprovenVersionWaitsForAnApproval(t *testing.T) {
	approved := twoWaves()
	approved.ApprovedWaves = []string{approved.Waves[1].Name}
	ahead := []Runtime{at("dev", "dev", "3.0.0"), at("prod", "prod", "3.0.0")}
	for name, c := range map[string]struct {
		spec     fleet.RolloutSpec
		proven   bool
		runtimes []Runtime
		state    fleet.RolloutState
		message  string
		fresh    string // version that a new runtime may have
	}{
		"never tried": {
			twoWaves(), false, ahead, fleet.RolloutWaiting,
			"2 runtimes have 2.0.0 or a newer version already, and none shows that 2.0.0 works", "1.0.0",
		},
		"approved": {
			approved, false, ahead, fleet.RolloutSucceeded, "no runtime had to be updated", "",
		},
		"proven before": {
			twoWaves(), true, ahead, fleet.RolloutSucceeded, "no runtime had to be updated", "",
		},
		"one has it, and is ready": {
			twoWaves(), false, []Runtime{ahead[0], at("prod", "prod", "2.0.0")}, fleet.RolloutSucceeded,
			"no runtime had to be updated", "",
		},
		"no runtime follows it": {
			twoWaves(), false, nil, fleet.RolloutSucceeded, "no runtime had to be updated", "",
		},
		"some have to be given it": {
			twoWaves(), false, []Runtime{at("dev", "dev", "1.0.0"), ahead[1]}, fleet.RolloutProgressing,
			"wave development", "1.0.0",
		},
		"those after have the last": {
			twoWaves(), true, []Runtime{ahead[0], at("prod", "prod", "1.0.0")}, fleet.RolloutProgressing,
			"wave production", "2.0.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			situation := Situation{Channel: "2.0.0", Proven: c.proven, Now: noon}
			step := Plan(first, c.spec, fleet.RolloutStatus{}, c.runtimes, situation)
			if step.Status.State != c.state || !strings.Contains(step.Status.Message, c.message) {
				t.Errorf("the rollout is %s: %s", step.Status.State, step.Status.Message)
			}
			if c.fresh == "" {
				return
			}
			step = Plan(first, c.spec, step.Status, append(slices.Clone(c.runtimes), at("new", "prod", "")), situation)
			if got := step.Decisions[len(c.runtimes)].Version; got != c.fresh {
				t.Errorf("a new runtime may have %s, want %s", got, c.fresh)
			}
		})
	}
}

// A channel that goes back and forth creates another rollout, whose canaries have had its version for a minute.
func TestWaveThatHasTheVersionStillSoaks(t *testing.T) {
	soaking := twoWaves()
	soaking.Waves[0].Soak = minutes(60)
	for name, c := range map[string]struct {
		minutesAgo int
		proven     bool
		granted    bool
		next       bool // production may have the version
	}{
		"given to it by the rollout before, a minute ago": {minutesAgo: 1, granted: true},
		"given to it an hour ago":                         {minutesAgo: 60, granted: true, next: true},
		"given to it by no rollout":                       {next: true},
		"given to it a minute ago, and proven by another": {minutesAgo: 1, granted: true, proven: true, next: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := at("dev", "dev", "2.0.0")
			if c.granted {
				r = grantedAgo(r, c.minutesAgo)
				r.Given.Rollout = "the-one-before"
			}
			step := Plan(first, soaking, fleet.RolloutStatus{}, []Runtime{r, at("prod", "prod", "1.0.0")},
				Situation{Channel: "2.0.0", Proven: c.proven, Now: noon})
			if got := step.Decisions[1].Version == "2.0.0"; got != c.next {
				t.Errorf("production may have %s, and the rollout reports: %s", step.Decisions[1].Version,
					step.Status.Message)
			}
			if !c.next &&
				(step.Status.Waves[0].State != fleet.WaveSoaking ||
					!strings.Contains(step.Status.Message, "is watched before the next one starts")) {
				t.Errorf("the wave is %s, and the rollout reports: %s", step.Status.Waves[0].State, step.Status.Message)
			}
		})
	}
}

func TestRollbackEndsWithReports(t *testing.T) {
	undone := twoWaves()
	undone.Undo = true
	for name, c := range map[string]struct {
		change func(*Runtime)
		want   fleet.RolloutState
	}{
		"it has its last good version": {func(*Runtime) {}, fleet.RolloutRolledBack},
		"it has not reported it yet": {
			func(r *Runtime) { r.Current = false }, fleet.RolloutRollingBack,
		},
		"it waits for a window, with an older one": {
			func(r *Runtime) { r.Current, r.Waits = false, true }, fleet.RolloutRolledBack,
		},
		"it is silent": {
			func(r *Runtime) { r.Current, r.LastReport = false, noon.Add(-time.Hour) }, fleet.RolloutRolledBack,
		},
		"it was notified long ago and reports something": {
			func(r *Runtime) {
				r.Current, r.Given.Time = false, metav1.NewTime(noon.Add(-time.Hour))
			}, fleet.RolloutRolledBack,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := Plan(first, twoWaves(), fleet.RolloutStatus{}, []Runtime{at("dev", "dev", "1.0.0")},
				Situation{Channel: "2.0.0", Now: noon.Add(-5 * time.Minute)})
			r := grantedAgo(at("dev", "dev", ""), 1)
			back := Plan(first, undone, before.Status, []Runtime{r}, Situation{Channel: "2.0.0", Now: noon})
			r.Version = "1.0.0"
			c.change(&r)
			step := Plan(first, undone, back.Status, []Runtime{r}, Situation{Channel: "2.0.0", Now: noon})
			if step.Status.State != c.want {
				t.Errorf("the rollout is %s: %s", step.Status.State, step.Status.Message)
			}
		})
	}
}

// TestStaleStatusDoesNotSkipAWave is the history of argo-cd#29410: the status of a step's
// application was that of the revision before, healthy and in sync, and so the step counted as done before it began.
func TestStaleStatusDoesNotSkipAWave(t *testing.T) {
	status := fleet.RolloutStatus{}
	// healthy and in sync, with the version before
	stale := []Runtime{at("dev", "dev", "1.0.0"), at("prod", "prod", "1.0.0")}
	for minute := range 30 {
		step := Plan(first, twoWaves(), status, stale, Situation{
			Channel: "2.0.0", Now: noon.Add(time.Duration(minute) * time.Second),
		})
		if step.Decisions[0].Version != "2.0.0" || step.Decisions[1].Version != "1.0.0" ||
			step.Status.Waves[1].StartedAt != nil {
			t.Fatalf("pass %d: decisions %+v", minute, step.Decisions)
		}
		status = step.Status
	}
	// The bundle is published. The report is still about the one before, and shows Ready.
	stale[0] = grantedAgo(stale[0], 0)
	stale[0].Current = false
	if step := Plan(first, twoWaves(), status, stale,
		Situation{Channel: "2.0.0", Now: noon.Add(time.Minute)}); step.Decisions[1].Version != "1.0.0" {
		t.Error("a report about the bundle before let production go")
	}
	stale[0].Current = true
	if step := Plan(first, twoWaves(), status, stale,
		Situation{Channel: "2.0.0", Now: noon.Add(time.Minute)}); step.Decisions[1].Version != "2.0.0" {
		t.Errorf("development is ready and production is held: %+v", step.Status)
	}
}

func TestCanariesStayTheSame(t *testing.T) {
	spec := twoWaves()
	spec.Waves[0].Selector, spec.Waves[0].Percent = nil, new(int32(5))
	canaries := func(spec fleet.RolloutSpec, n int) map[string]bool {
		runtimes := make([]Runtime, n)
		for i := range runtimes {
			runtimes[i] = at(fmt.Sprint("runtime-", i), "prod", "1.0.0")
		}
		chosen := map[string]bool{}
		for i, d := range Plan(first, spec, fleet.RolloutStatus{}, runtimes,
			Situation{Channel: "2.0.0", Now: noon}).Decisions {
			if d.Version == "2.0.0" {
				chosen[runtimes[i].ID] = true
			}
		}
		return chosen
	}
	today := canaries(spec, 200)
	spec.Module, spec.From, spec.To, spec.Revision = "istio", "0.9.0", "2.0.0", 7
	tomorrow := canaries(spec, 200)
	if len(today) != 10 || fmt.Sprint(today) != fmt.Sprint(tomorrow) {
		t.Errorf("today %v, tomorrow %v", today, tomorrow)
	}
	larger, same := canaries(spec, 400), 0
	for id := range today {
		if larger[id] {
			same++
		}
	}
	if len(larger) != 20 || same < 3 {
		t.Errorf("of %v only %d are canaries in the larger fleet %v", today, same, larger)
	}
}

func TestInvalidCourseHoldsEverything(t *testing.T) {
	for field, spoil := range map[string]func(*fleet.Wave){
		"spec.waves[0].maxFailures": func(w *fleet.Wave) { w.MaxFailures = new(intstr.FromString("many")) },
		"spec.waves[0].selector": func(w *fleet.Wave) {
			w.Selector = &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "stage", Operator: "Is"}},
			}
		},
		"spec.waves[1].name": func(w *fleet.Wave) { w.Name = "production" },
	} {
		spec := twoWaves()
		spoil(&spec.Waves[0])
		step := Plan(first, spec, fleet.RolloutStatus{}, []Runtime{at("dev", "dev", "1.0.0")},
			Situation{Channel: "2.0.0", Now: noon})
		if step.Status.State != fleet.RolloutWaiting || !strings.HasPrefix(step.Status.Message, field) ||
			step.Decisions[0].Version != "1.0.0" {
			t.Errorf("%s: %s %q, %+v", field, step.Status.State, step.Status.Message, step.Decisions)
		}
	}
}

func TestWavesNeedReportsReadSinceTheStart(t *testing.T) {
	spec := twoWaves()
	spec.Waves[0].Soak = minutes(10)
	canary := grantedAgo(at("dev", "dev", ""), 20)
	canary.Given.Ready = true
	soaking := Plan(first, spec, carriedOut("").Status, []Runtime{canary, everyone[1]},
		Situation{Channel: "2.0.0", Now: noon})
	started := noon.Add(10 * time.Minute) // no publisher ran in between
	for what, c := range map[string]struct {
		unnoted time.Time
		state   v1beta2.State
		after   time.Duration // since the start
		want    fleet.RolloutState
		message string
		proven  bool
	}{
		"its report is still to be read": {
			started, v1beta2.StateReady, time.Second, fleet.RolloutProgressing,
			"wave development: the reports of 1 updated runtimes are still to be read", false,
		},
		"it was read, and is good": {
			time.Time{}, v1beta2.StateReady, time.Second, fleet.RolloutProgressing, "wave production: 0 of 1", true,
		},
		"it was read, and the canary broke": {
			time.Time{}, v1beta2.StateError, time.Second, fleet.RolloutRollingBack, "1 of 1 runtimes failed", false,
		},
		"it cannot be read for offlineAfter": {
			started, v1beta2.StateReady, 16 * time.Minute, fleet.RolloutProgressing, "wave production: 0 of 1", true,
		},
	} {
		canary.LastReport, canary.Unnoted, canary.State = noon, c.unnoted, c.state
		step := Plan(first, spec, soaking.Status, []Runtime{canary, everyone[1]}, Situation{
			Channel: "2.0.0", Now: started.Add(c.after),
		})
		if proven := step.Status.Waves[0].ProvenAt != nil; proven != c.proven || step.Status.State != c.want ||
			!strings.Contains(step.Status.Message, c.message) {
			t.Errorf("%s: proven %v, the rollout is %s: %s", what, proven, step.Status.State, step.Status.Message)
		}
	}
}
