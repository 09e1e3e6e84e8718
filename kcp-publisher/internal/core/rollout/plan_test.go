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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

const first = "keda-regular-1"

func minutes(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Minute} }

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
		ID: id, Labels: map[string]string{"stage": stage}, LastReport: silence.LastReport{KnownAt: noon},
		Version: version, IsCurrent: true, State: v1beta2.StateReady,
	}
}

func grantedAgo(r Runtime, minutesAgo int) Runtime {
	r.Version, r.Selection = "2.0.0", &v1beta2.GivenVersion{
		Rollout: first, Time: metav1.NewTime(noon.Add(-time.Duration(minutesAgo) * time.Minute)),
	}
	return r
}

func TestNextWaveStartsWhenCanaryProvesVersion(t *testing.T) {
	dev := grantedAgo(at("dev", "dev", ""), 20)
	for name, c := range map[string]struct {
		change  func(*Runtime)
		state   fleet.RolloutState
		message string
		next    bool // true if production can be updated
	}{
		"canary ready with the published bundle": {
			func(*Runtime) {}, fleet.RolloutProgressing, "production", true,
		},
		"canary ready with a different bundle": {
			func(r *Runtime) {
				r.IsCurrent, r.LastReport.KnownAt = false, noon.Add(-12*time.Minute)
			}, fleet.RolloutProgressing, "0 of 1", false,
		},
		"canary was ready before a newer bundle was published": {
			func(r *Runtime) { r.IsCurrent, r.Selection.Ready = false, true }, fleet.RolloutProgressing, "production", true,
		},
		"canary was ready and is now in state Error": {
			func(r *Runtime) {
				r.Selection.Ready, r.State = true, v1beta2.StateError
			}, fleet.RolloutRollingBack, "1 of 1 runtimes failed", false,
		},
		"canary in state Error": {
			func(r *Runtime) {
				r.State = v1beta2.StateError
			}, fleet.RolloutRollingBack, "1 of 1 runtimes failed", false,
		},
		"canary in state Error with a different bundle": {
			func(r *Runtime) {
				r.State, r.IsCurrent, r.Selection.Time = v1beta2.StateError, false, metav1.NewTime(noon)
			}, fleet.RolloutProgressing, "0 of 1", false,
		},
		"canary in state Warning, which failsOn does not list": {
			func(r *Runtime) {
				r.State, r.Selection.Time = v1beta2.StateWarning, metav1.NewTime(noon)
			}, fleet.RolloutProgressing, "0 of 1", false,
		},
		"canary reports after the deadline that it is not ready": {
			func(r *Runtime) {
				r.State = v1beta2.StateProcessing
			}, fleet.RolloutRollingBack, "1 of 1 runtimes failed", false,
		},
		"canary not ready and silent since the deadline": {
			func(r *Runtime) {
				r.IsCurrent, r.LastReport.KnownAt = false, noon.Add(-11*time.Minute)
			}, fleet.RolloutProgressing, "0 of 1", false,
		},
		"canary silent for longer than offlineAfter": {
			func(r *Runtime) {
				r.IsCurrent, r.LastReport.KnownAt = false, noon.Add(-time.Hour)
			}, fleet.RolloutWaiting, "0 of 1", false,
		},
		"canary got the version without a rollout": {
			func(r *Runtime) { r.Selection = nil }, fleet.RolloutProgressing, "production", true,
		},
		"canary got the version without a rollout and never reported": {
			func(r *Runtime) { *r = Runtime{ID: r.ID, Labels: r.Labels, Version: r.Version} }, fleet.RolloutWaiting,
			"no report shows that 2.0.0 works", false,
		},
		"canary got the version without a rollout and has not reported it": {
			func(r *Runtime) { r.Selection, r.IsCurrent = nil, false }, fleet.RolloutWaiting, "no report shows that 2.0.0 works",
			false,
		},
		"canary got the version without a rollout and is in state Error": {
			func(r *Runtime) { r.Selection, r.State = nil, v1beta2.StateError }, fleet.RolloutWaiting,
			"no report shows that 2.0.0 works", false,
		},
		"canary has a newer version": {
			func(r *Runtime) {
				r.Version, r.Selection = "3.0.0", nil
			}, fleet.RolloutWaiting, "no report shows that 2.0.0 works", false,
		},
		"canary got the version from a superseded rollout and is not ready": {
			func(r *Runtime) {
				r.Selection.Rollout, r.IsCurrent = "another", false
			}, fleet.RolloutWaiting, "no report shows that 2.0.0 works", false,
		},
		"canary got the version from a superseded rollout and is in state Error": {
			func(r *Runtime) {
				r.Selection.Rollout, r.State = "another", v1beta2.StateError
			}, fleet.RolloutWaiting, "no report shows that 2.0.0 works", false,
		},
		"canary not ready after the deadline, no bundle can be published to it": {
			func(r *Runtime) { r.IsCurrent, r.Unpublishable = false, true }, fleet.RolloutWaiting, "0 of 1", false,
		},
		"canary got the version from a superseded rollout, was ready and is now in state Error": {
			func(r *Runtime) {
				r.Selection.Rollout, r.Selection.Ready, r.State = "another", true, v1beta2.StateError
			}, fleet.RolloutWaiting, "no report shows that 2.0.0 works", false,
		},
		"canary got the version from a superseded rollout and is ready": {
			func(r *Runtime) { r.Selection.Rollout = "another" }, fleet.RolloutProgressing, "production", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := dev
			g := *dev.Selection
			r.Selection = &g
			c.change(&r)
			started := Plan(first, twoWaves(), fleet.RolloutStatus{},
				[]Runtime{at("dev", "dev", "1.0.0"), at("prod", "prod", "1.0.0")}, PlanInput{
					ChannelVersion: "2.0.0", Now: noon.Add(-20 * time.Minute),
				})
			step := Plan(first, twoWaves(), started.Status, []Runtime{r, at("prod", "prod", "1.0.0")},
				PlanInput{ChannelVersion: "2.0.0", Now: noon})
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

// An operator sets the channel to a version that is older than the version of every runtime. New runtimes must not get
// it without approval.
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
		fresh    string // version of a new runtime
	}{
		"version that no runtime has tried": {
			twoWaves(), false, ahead, fleet.RolloutWaiting,
			"2 runtimes already have 2.0.0 or a newer version, and no report shows that 2.0.0 works", "1.0.0",
		},
		"wave approved": {
			approved, false, ahead, fleet.RolloutSucceeded, "no runtime had to be updated", "",
		},
		"version proven by an earlier rollout": {
			twoWaves(), true, ahead, fleet.RolloutSucceeded, "no runtime had to be updated", "",
		},
		"one runtime ready with the version": {
			twoWaves(), false, []Runtime{ahead[0], at("prod", "prod", "2.0.0")}, fleet.RolloutSucceeded,
			"no runtime had to be updated", "",
		},
		"no runtime follows the channel": {
			twoWaves(), false, nil, fleet.RolloutSucceeded, "no runtime had to be updated", "",
		},
		"first wave has runtimes to update": {
			twoWaves(), false, []Runtime{at("dev", "dev", "1.0.0"), ahead[1]}, fleet.RolloutProgressing,
			"wave development", "1.0.0",
		},
		"version proven, last wave has runtimes to update": {
			twoWaves(), true, []Runtime{ahead[0], at("prod", "prod", "1.0.0")}, fleet.RolloutProgressing,
			"wave production", "2.0.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			situation := PlanInput{ChannelVersion: "2.0.0", IsProven: c.proven, Now: noon}
			step := Plan(first, c.spec, fleet.RolloutStatus{}, c.runtimes, situation)
			if step.Status.State != c.state || !strings.Contains(step.Status.Message, c.message) {
				t.Errorf("got rollout state %s: %s, want %s: %s", step.Status.State, step.Status.Message, c.state,
					c.message)
			}
			if c.fresh == "" {
				return
			}
			step = Plan(first, c.spec, step.Status, append(slices.Clone(c.runtimes), at("new", "prod", "")), situation)
			if got := step.Decisions[len(c.runtimes)].Version; got != c.fresh {
				t.Errorf("new runtime: got version %s, want %s", got, c.fresh)
			}
		})
	}
}

// An operator promotes a version again shortly after an earlier rollout of the same version, so the canaries already
// have it.
func TestSoakTimeAppliesToWaveThatAlreadyHasTheVersion(t *testing.T) {
	soaking := twoWaves()
	soaking.Waves[0].Soak = minutes(60)
	for name, c := range map[string]struct {
		minutesAgo int
		proven     bool
		granted    bool
		next       bool // true if production can be updated
	}{
		"canary got the version a minute ago":           {minutesAgo: 1, granted: true},
		"canary got the version an hour ago":            {minutesAgo: 60, granted: true, next: true},
		"canary got the version without a rollout":      {},
		"canary got a proven version without a rollout": {proven: true, next: true},
		"canary got a previously proven version a minute ago": {
			minutesAgo: 1, granted: true, proven: true, next: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := at("dev", "dev", "2.0.0")
			if c.granted {
				r = grantedAgo(r, c.minutesAgo)
				r.Selection.Rollout = "the-one-before"
			}
			step := Plan(first, soaking, fleet.RolloutStatus{}, []Runtime{r, at("prod", "prod", "1.0.0")},
				PlanInput{ChannelVersion: "2.0.0", IsProven: c.proven, Now: noon})
			if got := step.Decisions[1].Version == "2.0.0"; got != c.next {
				t.Errorf("got version %s for production, rollout message %s", step.Decisions[1].Version,
					step.Status.Message)
			}
			if !c.next &&
				(step.Status.Waves[0].State != fleet.WaveSoaking ||
					!strings.Contains(step.Status.Message, "soaking before the next wave starts")) {
				t.Errorf("got wave state %s, rollout message %s", step.Status.Waves[0].State, step.Status.Message)
			}
		})
	}
}

func TestRollbackEndsAfterReports(t *testing.T) {
	undone := twoWaves()
	undone.Undo = true
	for name, c := range map[string]struct {
		change func(*Runtime)
		want   fleet.RolloutState
	}{
		"runtime reported the last good version": {func(*Runtime) {}, fleet.RolloutRolledBack},
		"runtime has not reported the last good version": {
			func(r *Runtime) { r.IsCurrent = false }, fleet.RolloutRollingBack,
		},
		"runtime waited for its maintenance window": {
			func(r *Runtime) { r.IsCurrent, r.WaitsForWindow = false, true }, fleet.RolloutRolledBack,
		},
		"silent runtime": {
			func(r *Runtime) { r.IsCurrent, r.LastReport.KnownAt = false, noon.Add(-time.Hour) }, fleet.RolloutRolledBack,
		},
		"runtime reported after the deadline without the last good version": {
			func(r *Runtime) {
				r.IsCurrent, r.Selection.Time = false, metav1.NewTime(noon.Add(-time.Hour))
			}, fleet.RolloutRolledBack,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := Plan(first, twoWaves(), fleet.RolloutStatus{}, []Runtime{at("dev", "dev", "1.0.0")},
				PlanInput{ChannelVersion: "2.0.0", Now: noon.Add(-5 * time.Minute)})
			r := grantedAgo(at("dev", "dev", ""), 1)
			back := Plan(first, undone, before.Status, []Runtime{r}, PlanInput{ChannelVersion: "2.0.0", Now: noon})
			r.Version = "1.0.0"
			c.change(&r)
			step := Plan(first, undone, back.Status, []Runtime{r}, PlanInput{ChannelVersion: "2.0.0", Now: noon})
			if step.Status.State != c.want {
				t.Errorf("got rollout state %s: %s, want %s", step.Status.State, step.Status.Message, c.want)
			}
		})
	}
}

// A step must not count as complete because the previous revision was healthy, as in argo-cd#29410.
func TestStaleStatusDoesNotSkipAWave(t *testing.T) {
	status := fleet.RolloutStatus{}
	// The runtimes are ready with the previous version.
	stale := []Runtime{at("dev", "dev", "1.0.0"), at("prod", "prod", "1.0.0")}
	for minute := range 30 {
		step := Plan(first, twoWaves(), status, stale, PlanInput{
			ChannelVersion: "2.0.0", Now: noon.Add(time.Duration(minute) * time.Second),
		})
		if step.Decisions[0].Version != "2.0.0" || step.Decisions[1].Version != "1.0.0" ||
			step.Status.Waves[1].StartedAt != nil {
			t.Fatalf("pass %d: got decisions %+v, want 2.0.0 only for development", minute, step.Decisions)
		}
		status = step.Status
	}
	// The bundle is published, but the report is still about the previous bundle.
	stale[0] = grantedAgo(stale[0], 0)
	stale[0].IsCurrent = false
	if step := Plan(first, twoWaves(), status, stale,
		PlanInput{ChannelVersion: "2.0.0", Now: noon.Add(time.Minute)}); step.Decisions[1].Version != "1.0.0" {
		t.Error("a report about the previous bundle started wave production")
	}
	stale[0].IsCurrent = true
	if step := Plan(first, twoWaves(), status, stale,
		PlanInput{ChannelVersion: "2.0.0", Now: noon.Add(time.Minute)}); step.Decisions[1].Version != "2.0.0" {
		t.Errorf("development is ready, but production does not get the version: %+v", step.Status)
	}
}

func TestCanarySelectionIsStable(t *testing.T) {
	spec := twoWaves()
	spec.Waves[0].Selector, spec.Waves[0].Percent = nil, new(int32(5))
	canaries := func(spec fleet.RolloutSpec, n int) map[string]bool {
		runtimes := make([]Runtime, n)
		for i := range runtimes {
			runtimes[i] = at(fmt.Sprint("runtime-", i), "prod", "1.0.0")
		}
		chosen := map[string]bool{}
		for i, d := range Plan(first, spec, fleet.RolloutStatus{}, runtimes,
			PlanInput{ChannelVersion: "2.0.0", Now: noon}).Decisions {
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
		t.Errorf("got canaries %v for one rollout and %v for the next", today, tomorrow)
	}
	larger, same := canaries(spec, 400), 0
	for id := range today {
		if larger[id] {
			same++
		}
	}
	if len(larger) != 20 || same < 3 {
		t.Errorf("of the canaries %v, only %d are canaries in the larger fleet: %v", today, same, larger)
	}
}

func TestInvalidWaveHoldsAllRuntimes(t *testing.T) {
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
			PlanInput{ChannelVersion: "2.0.0", Now: noon})
		if step.Status.State != fleet.RolloutWaiting || !strings.HasPrefix(step.Status.Message, field) ||
			step.Decisions[0].Version != "1.0.0" {
			t.Errorf("invalid %s: got state %s, message %q, decisions %+v, want Waiting and 1.0.0", field,
				step.Status.State, step.Status.Message, step.Decisions)
		}
	}
}

func TestRestartedPublisherReadsReportsBeforeNextWave(t *testing.T) {
	spec := twoWaves()
	spec.Waves[0].Soak = minutes(10)
	canary := grantedAgo(at("dev", "dev", ""), 20)
	canary.Selection.Ready = true
	soaking := Plan(first, spec, carriedOut("").Status, []Runtime{canary, everyone[1]},
		PlanInput{ChannelVersion: "2.0.0", Now: noon})
	started := noon.Add(10 * time.Minute) // the start of this publisher
	for what, c := range map[string]struct {
		unnoted time.Time
		state   v1beta2.State
		after   time.Duration // time since the start
		want    fleet.RolloutState
		message string
		proven  bool
	}{
		"report not read yet": {
			started, v1beta2.StateReady, time.Second, fleet.RolloutProgressing,
			"wave development: the reports of 1 runtimes with the version have not been read yet", false,
		},
		"report read, canary ready": {
			time.Time{}, v1beta2.StateReady, time.Second, fleet.RolloutProgressing, "wave production: 0 of 1", true,
		},
		"report read, canary failed": {
			time.Time{}, v1beta2.StateError, time.Second, fleet.RolloutRollingBack, "1 of 1 runtimes failed", false,
		},
		"report not read for longer than offlineAfter": {
			started, v1beta2.StateReady, 16 * time.Minute, fleet.RolloutWaiting, "wave production: 0 of 1", true,
		},
	} {
		canary.LastReport, canary.State = silence.LastReport{KnownAt: noon, PossibleAt: c.unnoted}, c.state
		step := Plan(first, spec, soaking.Status, []Runtime{canary, everyone[1]}, PlanInput{
			ChannelVersion: "2.0.0", Now: started.Add(c.after),
		})
		if proven := step.Status.Waves[0].ProvenAt != nil; proven != c.proven || step.Status.State != c.want ||
			!strings.Contains(step.Status.Message, c.message) {
			t.Errorf("%s: got proven %t, rollout state %s: %s, want %t, %s: %s", what, proven, step.Status.State,
				step.Status.Message, c.proven, c.want, c.message)
		}
	}
}
