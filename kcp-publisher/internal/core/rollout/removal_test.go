package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

var kedaRemoval = Track{Module: "keda", Channel: "regular", IsRemoval: true}

const firstRemoval = "keda-regular-removed-1"

// losing returns a runtime that loses the module. decided is the time at which the publisher allowed the removal.
func losing(id, stage string, decided time.Time) Runtime {
	r := at(id, stage, "1.0.0")
	r.RemovalDecidedAt = decided
	return r
}

// without returns a runtime from which a rollout removed the module. The runtime reports the given state for the
// module.
func without(id, stage, rollout string, state v1beta2.State) Runtime {
	r := at(id, stage, fleet.VersionRemoved)
	r.State, r.IsCurrent = state, state != ""
	r.Selection = &v1beta2.GivenVersion{Rollout: rollout, Time: metav1.NewTime(noon), State: state,
		Ready: state == v1beta2.StateReady}
	return r
}

func removalPolicy(change func(*fleet.RolloutPolicy)) []fleet.RolloutPolicy {
	policy := fleet.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "careful"},
		Spec: fleet.RolloutPolicySpec{Course: twoWaves().Course}}
	if change != nil {
		change(&policy)
	}
	return []fleet.RolloutPolicy{policy}
}

func removed(runtimes ...Runtime) map[Track]Followers {
	return map[Track]Followers{kedaRemoval: {Channel: fleet.VersionRemoved, Runtimes: runtimes}}
}

// ended returns the Rollout of the first removal in the given state. If state is empty, no step of the Rollout has been
// planned yet.
func ended(state fleet.RolloutState, change func(*fleet.Rollout)) []fleet.Rollout {
	spec := twoWaves()
	spec.To = fleet.VersionRemoved
	r := fleet.Rollout{ObjectMeta: metav1.ObjectMeta{Name: firstRemoval, ResourceVersion: "1"}, Spec: spec}
	r.Status = Plan(r.Name, spec, fleet.RolloutStatus{}, nil, PlanInput{ChannelVersion: spec.To, Now: noon}).Status
	if r.Status.State, r.Status.FinishedAt = state, new(metav1.NewTime(noon)); state == "" {
		r.Status = fleet.RolloutStatus{}
	}
	if change != nil {
		change(&r)
	}
	return []fleet.Rollout{r}
}

// decisions describes the decision for each runtime: "lose", "restore", or the reason why the runtime keeps the module.
func decisions(gate *Gate, runtimes []Runtime) (all []string) {
	for _, r := range runtimes {
		switch d := gate.DecideRemoval(r.ID, r.RemovalDecidedAt); {
		case d.ReplacedVersion != "" && r.Version == fleet.VersionRemoved:
			all = append(all, "restore")
		case d.HeldReason != "":
			all = append(all, d.HeldReason)
		default:
			all = append(all, "lose")
		}
	}
	return all
}

func TestRemovalPassesThroughWaves(t *testing.T) {
	const (
		holds     = "rollout " + firstRemoval + " holds the removal"
		withdrawn = "rollout " + firstRemoval + " was rolled back: no more runtimes lose the module"
	)
	dev, prod := losing("dev", "dev", noon), losing("prod", "", noon)
	unapproved := func(r Runtime) Runtime { r.RemovalHeld = true; return r }
	quiet := func(r Runtime) Runtime { r.LastReport.KnownAt = noon.Add(-24 * time.Hour); return r }
	gone := func(state v1beta2.State) Runtime { return without("dev", "dev", firstRemoval, state) }
	for name, c := range map[string]struct {
		before         []fleet.Rollout
		runtimes       []Runtime
		offered        bool
		after          time.Duration
		state          fleet.RolloutState
		message        string
		devGets, other string // expected decisions for dev and the others
	}{
		"canaries first": {
			nil, []Runtime{dev, prod}, false, 0, fleet.RolloutProgressing, "wave development: 0 of 1", "lose",
			holds + ": wave production",
		},
		"removal without approval": {
			nil, []Runtime{unapproved(dev), unapproved(prod)}, false, 0, fleet.RolloutWaiting,
			"wave development waits for the approval of the removal from 2 runtimes: see `kcp-publisher removals`",
			holds + ": wave development", holds + ": wave production",
		},
		"silent runtimes without approval": {
			nil, []Runtime{unapproved(quiet(dev)), unapproved(quiet(prod))}, false, 0, fleet.RolloutWaiting,
			"from 2 runtimes", holds + ": wave development", holds + ": wave production",
		},
		"removal in a later wave without approval": {
			nil, []Runtime{dev, unapproved(prod)}, false, 0, fleet.RolloutWaiting, "from 1 runtimes",
			holds + ": wave development", holds + ": wave production",
		},
		"canary that still has the module": {
			ended("", nil), []Runtime{gone(v1beta2.StateDeleting), prod}, false, time.Minute, fleet.RolloutProgressing,
			"0 of 1", "lose", holds + ": wave production",
		},
		"canary without the module": {
			ended("", nil), []Runtime{gone(v1beta2.StateReady), prod}, false, time.Minute, fleet.RolloutProgressing,
			"wave production: 0 of 1", "lose", "lose",
		},
		"canary that cannot remove the module": {
			ended("", nil), []Runtime{gone(v1beta2.StateError), prod}, false, time.Minute, fleet.RolloutRollingBack,
			"wave development failed: 1 of 1", "restore", withdrawn,
		},
		"removal that is blocked until its deadline": {
			ended("", nil), []Runtime{func() Runtime {
				r := gone(v1beta2.StateWarning)
				r.LastReport.KnownAt = noon.Add(12 * time.Minute)
				return r
			}(), prod}, false, 13 * time.Minute, fleet.RolloutRollingBack, "wave development failed: 1 of 1", "restore",
			withdrawn,
		},
		"paused": {
			ended("", func(r *fleet.Rollout) { r.Spec.Paused = true }), []Runtime{gone(v1beta2.StateReady), prod}, false,
			time.Minute, fleet.RolloutPaused, "paused", "lose", holds + ": wave production",
		},
		"aborted": {
			ended("", func(r *fleet.Rollout) { r.Spec.Abort = true }), []Runtime{gone(v1beta2.StateReady), prod}, false,
			time.Minute, fleet.RolloutStopped, "aborted by an operator", "lose", holds + ": the rollout was stopped",
		},
		"undone": {
			ended("", func(r *fleet.Rollout) { r.Spec.Undo = true }), []Runtime{gone(v1beta2.StateReady), prod}, false,
			time.Minute, fleet.RolloutRollingBack, "undone by an operator", "restore",
			withdrawn,
		},
		"undone after its end": {
			ended(fleet.RolloutSucceeded, func(r *fleet.Rollout) { r.Spec.Undo = true }),
			[]Runtime{gone(v1beta2.StateReady), without("prod", "", firstRemoval, v1beta2.StateReady)}, false, time.Minute,
			fleet.RolloutRollingBack, "undone by an operator", "restore", "restore",
		},
		"module that is offered again": {
			ended("", nil), []Runtime{gone(v1beta2.StateReady)}, true, time.Minute, fleet.RolloutRollingBack,
			"the catalog offers module keda again", "restore", "",
		},
		"runtime that is silent": {
			ended(fleet.RolloutSucceeded, nil), []Runtime{dev, prod}, false, time.Hour, fleet.RolloutSucceeded, "", "lose",
			"lose",
		},
	} {
		t.Run(name, func(t *testing.T) {
			followers := removed(c.runtimes...)
			if c.offered {
				followers[kedaRemoval] = Followers{Runtimes: c.runtimes}
			}
			round := EvaluateAll(removalPolicy(nil), c.before, followers, noon.Add(max(c.after, settleTime)))
			if len(round.Newest) != 1 || round.Newest[0].Name != firstRemoval {
				t.Fatalf("got %d rollouts, want %s", len(round.Newest), firstRemoval)
			}
			got := round.Newest[0]
			if got.Spec.From != "1.0.0" || got.Spec.To != fleet.VersionRemoved {
				t.Errorf("got a rollout from %s to %s", got.Spec.From, got.Spec.To)
			}
			if got.Status.State != c.state || !strings.Contains(got.Status.Message, c.message) {
				t.Errorf("got state %s with message %q, want %s with %q", got.Status.State, got.Status.Message, c.state,
					c.message)
			}
			if AwaitsApproval(got.Spec, got.Status.Waves[0]) {
				t.Error("an approval of the wave is requested, but only an approval of the removal has an effect")
			}
			for i, d := range decisions(round.Gates[kedaRemoval], c.runtimes) {
				if want := []string{c.devGets, c.other}[i]; d != want {
					t.Errorf("runtime %s: got %q, want %q", c.runtimes[i].ID, d, want)
				}
			}
		})
	}
}

func TestRolledBackRemovalEndsWhenModulesAreBack(t *testing.T) {
	back := without("dev", "dev", firstRemoval, v1beta2.StateReady)
	back.Version = "0.9.0" // the runtime had an older version than the other runtimes
	rollouts := ended(fleet.RolloutRollingBack, nil)
	round := EvaluateAll(removalPolicy(nil), rollouts, removed(back, losing("prod", "", noon)), noon.Add(time.Minute))
	if got := round.Newest[0].Status; got.State != fleet.RolloutRolledBack || got.Reverted != 1 {
		t.Errorf("got state %s with %d reverted runtimes, want RolledBack with 1", got.State, got.Reverted)
	}
	if d := round.Gates[kedaRemoval].DecideRemoval("dev", noon); d.HeldReason == "" {
		t.Error("the runtime loses the module again without a retry")
	}
}

// A rollback cannot install a module again if an operator deleted its ModuleReleaseMeta.
func TestRollbackNamesRuntimesThatCannotReturn(t *testing.T) {
	gone := without("dev", "dev", firstRemoval, v1beta2.StateReady)
	unresolved := gone
	unresolved.UnresolvedVersion, unresolved.Message = "0.9.0", "module keda has no ModuleReleaseMeta"
	const reason = "undone by an operator"
	const explained = reason + "; the last version cannot be installed in dev (module keda has no ModuleReleaseMeta): " +
		"create or correct the module's ModuleReleaseMeta and ModuleTemplate"
	rollouts := ended("", func(r *fleet.Rollout) { r.Spec.Undo = true })
	for _, step := range []struct {
		runtime Runtime
		after   time.Duration
		state   fleet.RolloutState
		message string
	}{
		{unresolved, time.Minute, fleet.RolloutRollingBack, explained},
		{unresolved, 2 * time.Minute, fleet.RolloutRollingBack, explained},
		{gone, 3 * time.Minute, fleet.RolloutRollingBack, reason},
		{unresolved, time.Hour, fleet.RolloutRolledBack, explained},
		{gone, 2 * time.Hour, fleet.RolloutRolledBack, reason},
	} {
		runtimes := []Runtime{step.runtime, losing("prod", "", noon)}
		round := EvaluateAll(removalPolicy(nil), rollouts, removed(runtimes...), noon.Add(step.after))
		got := round.Newest[0].Status
		if got.State != step.state || got.Message != step.message {
			t.Errorf("after %s: got state %s with message %q, want %s with %q", step.after, got.State, got.Message, step.state,
				step.message)
		}
		if d := decisions(round.Gates[kedaRemoval], runtimes); d[0] != "restore" {
			t.Errorf("after %s: got decision %q, want that the publisher retries", step.after, d[0])
		}
		rollouts[0].Status = got
	}
}

// The publisher decides about the runtimes' removals at different times, so the first evaluation knows only some of the
// runtimes. The place of a single known runtime could select half of the fleet for the first wave.
func TestRuntimesThatJoinARemovalLaterDoNotEnlargeWaves(t *testing.T) {
	var runtimes []Runtime
	for i := range 100 {
		runtimes = append(runtimes, losing(fmt.Sprint("runtime-", i), "", noon))
	}
	slices.SortFunc(runtimes, func(a, b Runtime) int {
		return cmp.Compare(hashPlace("careful", b.ID), hashPlace("careful", a.ID))
	})
	policies := map[string]fleet.Wave{
		"percent": {Name: "few", Percent: new(int32(10))}, "count": {Name: "few", Count: new(int32(10))},
	}
	for name, first := range policies {
		for _, c := range []struct {
			decided time.Duration // the time of the other 99 decisions
			lose    int
		}{{3 * time.Second, 10}, {4 * time.Minute, 1}} {
			policy := removalPolicy(func(p *fleet.RolloutPolicy) {
				last := p.Spec.Waves[1]
				p.Spec.Waves = []fleet.Wave{first, last}
			})
			var rollouts []fleet.Rollout
			var gate *Gate
			known := runtimes[:1]
			for _, after := range []time.Duration{0, 2 * time.Second, settleTime, 20 * time.Second, 5 * time.Minute} {
				if after >= c.decided && len(known) == 1 {
					known = slices.Clone(runtimes)
					for i := range known[1:] {
						known[i+1].RemovalDecidedAt = noon.Add(c.decided)
					}
				}
				round := EvaluateAll(policy, rollouts, removed(known...), noon.Add(after))
				rollouts, gate = []fleet.Rollout{*round.Newest[0]}, round.Gates[kedaRemoval]
				rollouts[0].ResourceVersion = "1"
				recorded := RecordedGates(policy, rollouts, removed(known[:1]...), noon.Add(after))[kedaRemoval]
				if got, want := decisions(recorded, known[:1]), decisions(gate, known[:1]); !slices.Equal(got, want) {
					t.Errorf("%s, after %s: a shard decides %q, the planner %q", name, after, got, want)
				}
			}
			lose := 0
			for _, d := range decisions(gate, known) {
				if d == "lose" {
					lose++
				}
			}
			if lose != c.lose {
				t.Errorf("%s, decisions after %s: %d of 100 runtimes lose the module first, want %d", name, c.decided, lose,
					c.lose)
			}
		}
	}
}

func TestEachRemovalGetsItsOwnRollout(t *testing.T) {
	late := noon.Add(time.Hour)
	retried := func(r *fleet.Rollout) { r.Spec.Retry = true }
	released := func(r *fleet.Rollout) { r.Status.ReleasedAt = new(metav1.NewTime(noon)) }
	for name, c := range map[string]struct {
		policies []fleet.RolloutPolicy
		before   []fleet.Rollout
		track    Track
		decided  time.Time
		want     string // the created rollout
		isHeld   bool
	}{
		"no policy":     {nil, nil, kedaRemoval, noon, "", false},
		"first removal": {removalPolicy(nil), nil, kedaRemoval, noon, firstRemoval, true},
		"module that was mandatory": {
			removalPolicy(nil), nil, Track{Module: "keda", IsRemoval: true}, noon, "keda-removed-1", true,
		},
		"module that was mandatory, with a policy for channels": {
			removalPolicy(func(p *fleet.RolloutPolicy) { p.Spec.Channels = []string{"regular"} }), nil,
			Track{Module: "keda", IsRemoval: true}, noon, "", false,
		},
		"removal that was decided before the end": {
			removalPolicy(nil), ended(fleet.RolloutSucceeded, nil), kedaRemoval, noon, "", false,
		},
		"removal after the end": {
			removalPolicy(nil), ended(fleet.RolloutSucceeded, nil), kedaRemoval, late, "keda-regular-removed-2", true,
		},
		"removal after the end without a policy": {nil, ended(fleet.RolloutSucceeded, nil), kedaRemoval, late, "", false},
		"removal after the module was offered again": {
			removalPolicy(nil), ended(fleet.RolloutSucceeded, released), kedaRemoval, late, "keda-regular-removed-2", true,
		},
		"removal that was rolled back": {
			removalPolicy(nil), ended(fleet.RolloutRolledBack, nil), kedaRemoval, noon, "", true,
		},
		"removal that is retried": {
			removalPolicy(nil), ended(fleet.RolloutRolledBack, retried), kedaRemoval, noon, "keda-regular-removed-2", true,
		},
		"removal that was rolled back, without a policy": {
			nil, ended(fleet.RolloutRolledBack, nil), kedaRemoval, noon, "", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			prod := losing("prod", "", c.decided)
			followers := map[Track]Followers{c.track: {Channel: fleet.VersionRemoved, Runtimes: []Runtime{
				losing("dev", "dev", c.decided), prod,
			}}}
			round := EvaluateAll(c.policies, c.before, followers, late)
			created := ""
			for _, r := range round.Create {
				created += r.Name
			}
			if created != c.want {
				t.Errorf("created %q, want %q", created, c.want)
			}
			gate := round.Gates[c.track]
			if isHeld := gate != nil && gate.DecideRemoval("prod", c.decided).HeldReason != ""; isHeld != c.isHeld {
				t.Errorf("removal from runtime prod waits: %t, want %t", isHeld, c.isHeld)
			}
		})
	}
}

func TestRemovalRolloutIgnoresChecksAndOtherChannels(t *testing.T) {
	policy := removalPolicy(func(p *fleet.RolloutPolicy) {
		p.Spec.Waves[0].Checks = []fleet.Check{worksCheck}
	})
	followers := removed(losing("dev", "dev", noon))
	followers[keda] = Followers{Channel: "1.0.0", Runtimes: []Runtime{at("other", "", "1.0.0")}}
	round := EvaluateAll(policy, nil, followers, noon)
	if len(round.Create) != 1 || len(round.Create[0].Spec.Waves[0].Checks) != 0 {
		t.Errorf("got %d rollouts, want one without checks", len(round.Create))
	}
	if round.Gates[keda] != nil {
		t.Error("the removal delays versions in other runtimes")
	}
}

func TestReturnOfARemovedModuleIsRecorded(t *testing.T) {
	round := EvaluateAll(removalPolicy(nil), ended(fleet.RolloutSucceeded, nil), nil, noon.Add(time.Hour))
	if len(round.Update) != 1 || round.Update[0].Status.ReleasedAt == nil {
		t.Errorf("got updates %v, want releasedAt of %s", round.Update, firstRemoval)
	}
}

func TestEndedRemovalDoesNotAllowLaterRemovals(t *testing.T) {
	ended := ended(fleet.RolloutSucceeded, nil)
	gate := NewGate(&ended[0], Step{Status: ended[0].Status}, nil)
	if d := gate.DecideRemoval("prod", noon); d.HeldReason != "" {
		t.Errorf("removal before the end: %s", d.HeldReason)
	}
	if d := gate.DecideRemoval("prod", noon.Add(time.Second)); d.HeldReason == "" {
		t.Error("a removal after the end needs no rollout")
	}
}
