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

// The first rollout to 2.0.0 has the given state. Then the test sets the channel to each of the versions in the field
// channel, and evaluates the track once after each change.
func TestPromotionAfterAnEndedRolloutCreatesANewRollout(t *testing.T) {
	for name, c := range map[string]struct {
		state    fleet.RolloutState
		retry    bool
		channel  []string
		policies []fleet.RolloutPolicy
		want     string // names of the created rollouts
	}{
		"channel still has the failed version": {
			state: fleet.RolloutRolledBack, channel: []string{"2.0.0", "2.0.0"},
			policies: policies("careful"),
		},
		"channel has the last good version": {
			state: fleet.RolloutRolledBack, channel: []string{"1.0.0"},
			policies: policies("careful"),
		},
		"channel had the last good version in between": {
			state: fleet.RolloutRolledBack, channel: []string{"1.0.0", "2.0.0"},
			policies: policies("careful"), want: "keda-regular-2",
		},
		"channel had the last good version during the rollback": {
			state: fleet.RolloutRollingBack, channel: []string{"1.0.0", "2.0.0", "2.0.0"},
			policies: policies("careful"), want: "keda-regular-2",
		},
		"channel had the last good version after the rollout was stopped": {
			state: fleet.RolloutStopped, channel: []string{"1.0.0", "2.0.0", "2.0.0"},
			policies: policies("careful"), want: "keda-regular-2",
		},
		"channel had the last good version in between, policy deleted": {
			state: fleet.RolloutRolledBack, channel: []string{"1.0.0", "2.0.0"}, want: "keda-regular-2",
		},
		"operator requests a retry": {
			state: fleet.RolloutRolledBack, retry: true, channel: []string{"2.0.0"},
			policies: policies("careful"), want: "keda-regular-2",
		},
		"operator stopped the rollout and requests a retry": {
			state: fleet.RolloutStopped, retry: true, channel: []string{"2.0.0"},
			policies: policies("careful"), want: "keda-regular-2",
		},
		"rollout succeeded": {
			state: fleet.RolloutSucceeded, retry: true, channel: []string{"2.0.0"},
			policies: policies("careful"),
		},
		"operator requests a retry while the channel has the last good version": {
			state: fleet.RolloutRolledBack, retry: true, channel: []string{"1.0.0"},
			policies: policies("careful"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			ended := carriedOut(c.state)
			ended.Spec.Retry = c.retry
			all := []fleet.Rollout{ended}
			made := ""
			for pass, channel := range c.channel {
				now := noon.Add(time.Duration(pass) * time.Minute)
				round := EvaluateAll(c.policies, all, map[Track]Followers{keda: {channel, everyone}}, now)
				for _, changed := range round.Update {
					all[slices.IndexFunc(all, func(r fleet.Rollout) bool { return r.Name == changed.Name })] = *changed
				}
				for _, r := range round.Create {
					made += r.Name
					versions := r.Spec.From + " to " + r.Spec.To
					waves := r.Status.Waves
					if versions != "1.0.0 to 2.0.0" || waves[0].StartedAt == nil || waves[1].StartedAt != nil {
						t.Errorf("the new rollout does not start with its first wave: %+v", r)
					}
					r.ResourceVersion = "1"
					all = append(all, *r)
				}
			}
			if made != c.want {
				t.Errorf("got created rollouts %q, want %q", made, c.want)
			}
		})
	}
}

func TestLastRejectedRolloutIsFound(t *testing.T) {
	rollout := func(revision int64, to string, state fleet.RolloutState) *fleet.Rollout {
		r := &fleet.Rollout{
			Spec: fleet.RolloutSpec{Revision: revision, To: to}, Status: fleet.RolloutStatus{State: state},
		}
		r.Name = ObjectName(keda, revision)
		return r
	}
	for name, c := range map[string]struct {
		rollouts []*fleet.Rollout
		want     string
	}{
		"version without a rollout": {nil, ""},
		"version rolled back": {
			[]*fleet.Rollout{rollout(1, "2.0.0", fleet.RolloutRolledBack)}, "keda-regular-1",
		},
		"version stopped":             {[]*fleet.Rollout{rollout(1, "2.0.0", fleet.RolloutStopped)}, "keda-regular-1"},
		"another version rolled back": {[]*fleet.Rollout{rollout(1, "1.5.0", fleet.RolloutRolledBack)}, ""},
		"version rolled back, then retried": {[]*fleet.Rollout{
			rollout(1, "2.0.0", fleet.RolloutRolledBack),
			rollout(2, "2.0.0", fleet.RolloutProgressing),
		}, ""},
		"version rolled back, then retried successfully": {[]*fleet.Rollout{
			rollout(1, "2.0.0", fleet.RolloutRolledBack),
			rollout(2, "2.0.0", fleet.RolloutSucceeded),
		}, ""},
		"version rolled back, then another version succeeded": {[]*fleet.Rollout{
			rollout(2, "3.0.0", fleet.RolloutSucceeded),
			rollout(1, "2.0.0", fleet.RolloutRolledBack),
		}, "keda-regular-1"},
		"version rolled back, then retry superseded": {[]*fleet.Rollout{
			rollout(1, "2.0.0", fleet.RolloutRolledBack),
			rollout(2, "2.0.0", fleet.RolloutSuperseded),
		}, "keda-regular-1"},
	} {
		got := ""
		if r := findRejected(c.rollouts, "2.0.0"); r != nil {
			got = r.Name
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestLastGoodVersionMustBeReadyExceptInDeferredRuntimes(t *testing.T) {
	dev, prod := grantedAgo(everyone[0], 5), grantedAgo(everyone[1], 5)
	otherProd := prod
	otherProd.ID = "other"
	notReady := prod
	notReady.IsCurrent = false
	away := prod
	away.IsCurrent, away.LastReport.KnownAt = false, noon.Add(-time.Hour)
	behind := everyone[1]
	behind.LastReport.KnownAt = noon.Add(-48 * time.Hour)
	window := notReady
	window.WaitsForWindow = true
	broken := prod
	broken.State = v1beta2.StateError
	for name, c := range map[string]struct {
		prod Runtime
		want string
	}{
		"all runtimes ready while the last wave soaks": {prod, "2.0.0"},
		"one runtime not ready":                        {notReady, "1.0.0"},
		"one silent runtime that has the version":      {away, "2.0.0"},
		"one silent runtime that lacks the version":    {behind, "2.0.0"},
		"one runtime waits for its maintenance window": {window, "2.0.0"},
		"one runtime failed within maxFailures":        {broken, "1.0.0"},
		"one runtime without the version":              {everyone[1], "1.0.0"},
	} {
		r := carriedOut("")
		r.Spec.Waves[1].Soak, r.Spec.Waves[1].MaxDeferred = minutes(60), new(intstr.FromInt32(1))
		r.Spec.Waves[1].MaxFailures = new(intstr.FromInt32(1))
		for range 2 {
			r.Status = Plan(first, r.Spec, r.Status, []Runtime{dev, otherProd, c.prod},
				PlanInput{ChannelVersion: "2.0.0", Now: noon}).Status
		}
		if r.Status.State != fleet.RolloutProgressing {
			t.Fatalf("%s: rollout has state %s: %s", name, r.Status.State, r.Status.Message)
		}
		spec := nextRollout(&policies("careful")[0], keda, "3.0.0", &r, nil)
		if spec == nil || spec.From != c.want {
			t.Errorf("%s: got next rollout %+v, want last good version %s", name, spec, c.want)
		}
	}
}

func TestEmptyWaveWaits(t *testing.T) {
	allowed, approved := twoWaves(), twoWaves()
	allowed.Waves[0].AllowEmpty = true
	approved.ApprovedWaves = []string{"development"}
	last := twoWaves()
	last.Waves[0], last.Waves[1] = last.Waves[1], last.Waves[0]
	last.Waves[0].Percent = new(int32(100))
	overlap := twoWaves()
	second := *overlap.Waves[0].DeepCopy()
	second.Name = "development-again"
	overlap.Waves = slices.Insert(overlap.Waves, 1, second)
	began := Plan(first, twoWaves(), fleet.RolloutStatus{}, everyone, PlanInput{ChannelVersion: "2.0.0", Now: noon}).Status
	lost := at("dev", "typo", "1.0.0")
	for name, c := range map[string]struct {
		spec   fleet.RolloutSpec
		before fleet.RolloutStatus
		dev    Runtime
		proven bool
		waits  bool
	}{
		"selector matches no runtime": {spec: twoWaves(), dev: lost, waits: true},
		"only runtime lost the label": {spec: twoWaves(), before: began, dev: lost, waits: true},
		"updated runtime lost the label": {
			spec: twoWaves(), before: began, dev: grantedAgo(lost, 5), waits: true,
		},
		"policy allows empty waves":                   {spec: allowed, dev: lost},
		"wave approved":                               {spec: approved, dev: lost},
		"version proven by an earlier rollout":        {spec: twoWaves(), dev: lost, proven: true},
		"no later wave has a runtime":                 {spec: last, dev: lost},
		"matching runtimes belong to an earlier wave": {spec: overlap, dev: grantedAgo(everyone[0], 5)},
	} {
		t.Run(name, func(t *testing.T) {
			situation := PlanInput{ChannelVersion: "2.0.0", IsProven: c.proven, Now: noon}
			step := Plan(first, c.spec, c.before, []Runtime{c.dev, everyone[1]}, situation)
			const message = "wave development selects no runtime: "
			waits := step.Status.State == fleet.RolloutWaiting && strings.HasPrefix(step.Status.Message, message)
			if waits != c.waits {
				t.Errorf("got rollout state %s: %s, want waits %t", step.Status.State, step.Status.Message, c.waits)
			}
			if got := step.Decisions[1].Version; (got == "1.0.0") != c.waits {
				t.Errorf("got version %s for production, want waits %t", got, c.waits)
			}
			if c.waits && step.Status.Waves[0].State != fleet.WaveWaiting {
				t.Errorf("got wave state %s, want %s", step.Status.Waves[0].State, fleet.WaveWaiting)
			}
		})
	}
}

// TestEarlierRolloutProvesItsVersion promotes version 4.0.0 after two earlier rollouts. The wave before production
// selects no runtime, so it waits unless the first rollout proves the version.
func TestEarlierRolloutProvesItsVersion(t *testing.T) {
	for name, c := range map[string]struct {
		from, to string
		state    fleet.RolloutState
		updated  int32
		proven   bool
	}{
		"succeeded rollout":                       {"1.0.0", "4.0.0", fleet.RolloutSucceeded, 1, true},
		"succeeded rollout that updated nothing":  {"1.0.0", "4.0.0", fleet.RolloutSucceeded, 0, false},
		"stopped rollout":                         {"1.0.0", "4.0.0", fleet.RolloutStopped, 1, false},
		"succeeded rollout of another version":    {"1.0.0", "2.0.0", fleet.RolloutSucceeded, 1, false},
		"last good version of an earlier rollout": {"4.0.0", "5.0.0", fleet.RolloutRolledBack, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			earlier, latest := carriedOut(c.state), carriedOut(fleet.RolloutRolledBack)
			earlier.Spec.From, earlier.Spec.To, earlier.Status.Updated = c.from, c.to, c.updated
			latest.Name, latest.Spec.Revision, latest.Spec.To = ObjectName(keda, 2), 2, "3.0.0"
			round := EvaluateAll(policies("careful"), []fleet.Rollout{earlier, latest},
				map[Track]Followers{keda: {"4.0.0", everyone[1:]}}, noon)
			if len(round.Create) != 1 || round.Create[0].Spec.To != "4.0.0" {
				t.Fatalf("got created rollouts %+v, want one to 4.0.0", round.Create)
			}
			want := "1.0.0"
			if c.proven {
				want = "4.0.0"
			}
			if got := round.Gates[keda].Decide("prod", "1.0.0").Version; got != want {
				t.Errorf("got version %s for production, want %s, rollout message %s", got, want,
					round.Create[0].Status.Message)
			}
		})
	}
}

// The publisher has been unable to publish to the first of three runtimes for longer than offlineAfter. The rollout
// must continue with the others.
func TestUnpublishableRuntimeStopsCountingTowardMaxConcurrent(t *testing.T) {
	spec := twoWaves()
	spec.Waves = spec.Waves[1:]
	spec.Waves[0].MaxConcurrent = new(intstr.FromInt32(1))
	runtimes := make([]Runtime, 3)
	for i := range runtimes {
		runtimes[i] = at(fmt.Sprint("r-", i), "prod", "1.0.0")
	}
	now, status := noon, fleet.RolloutStatus{}
	poll := func(minutes int) (granted []int) {
		now = now.Add(time.Duration(minutes) * time.Minute)
		for i := range runtimes {
			runtimes[i].LastReport.KnownAt = now
		}
		step := Plan(first, spec, status, runtimes, PlanInput{ChannelVersion: "2.0.0", Now: now})
		status = step.Status
		for i, d := range step.Decisions {
			if d.Version == "2.0.0" && runtimes[i].Version != "2.0.0" {
				granted = append(granted, i)
			}
		}
		return granted
	}
	begun := poll(0)
	if len(begun) != 1 {
		t.Fatalf("at the start: got granted runtimes %v, want one", begun)
	}
	stuck := begun[0]
	runtimes[stuck].Unpublishable, runtimes[stuck].UnpublishableSince = true, now
	if got := poll(15); !slices.Equal(got, begun) {
		t.Fatalf("before offlineAfter: got granted runtimes %v, want %v", got, begun)
	}
	if got := poll(1); len(got) > 0 {
		t.Fatalf("after the runtime was postponed: got granted runtimes %v, want none", got)
	}
	// The registry accepts bundles for the runtime again.
	runtimes[stuck].Unpublishable = false
	var order []int
	for range 3 {
		got := poll(2)
		if len(got) != 1 {
			t.Fatalf("after runtimes %v: got granted runtimes %v, want one", order, got)
		}
		order = append(order, got[0])
		runtimes[got[0]] = grantedAgo(runtimes[got[0]], 0)
		runtimes[got[0]].Selection.Time = metav1.NewTime(now)
	}
	if order[2] != stuck || order[0] == order[1] {
		t.Errorf("got order %v, want runtime %d last", order, stuck)
	}
	if poll(1); status.State != fleet.RolloutSucceeded || len(status.Waves[0].Postponed) > 0 {
		t.Errorf("got rollout state %s: %s, %+v, want %s", status.State, status.Message, status.Waves,
			fleet.RolloutSucceeded)
	}
}

// All runtimes of the wave had a newer version, so the wave was proven without updates. Then more runtimes join the
// wave.
func TestRuntimeAddedToAnEmptyWaveKeepsItsVersion(t *testing.T) {
	spec := twoWaves()
	spec.Waves[0].AllowEmpty = true
	ahead := at("prod", "prod", "3.0.0")
	passed := Plan(first, spec, fleet.RolloutStatus{}, []Runtime{ahead},
		PlanInput{ChannelVersion: "2.0.0", Now: noon}).Status
	if passed.State != fleet.RolloutWaiting || passed.Waves[0].ProvenAt == nil {
		t.Fatalf("got rollout state %s: %+v, want Waiting with a proven first wave", passed.State, passed.Waves)
	}
	for version, want := range map[string]string{"": "1.0.0", "1.0.0": "1.0.0"} {
		late := at("late", "dev", version)
		all := []Runtime{ahead, late}
		step := Plan(first, spec, passed, all, PlanInput{ChannelVersion: "2.0.0", Now: noon.Add(time.Minute)})
		if got := step.Decisions[1].Version; got != want || step.Status.State != fleet.RolloutWaiting {
			t.Errorf("late runtime with version %q: got version %s, rollout state %s, want %s, Waiting", version, got,
				step.Status.State, want)
		}
		situation := PlanInput{ChannelVersion: "2.0.0", Now: noon.Add(time.Minute)}
		of := recordedStep(&fleet.Rollout{Spec: spec, Status: step.Status}, all, situation)
		if got := of.Decisions[1].Version; got != want {
			t.Errorf("shard: late runtime with version %q: got version %s, want %s", version, got, want)
		}
	}
}

// After all runtimes are updated, the promoted version is the last good version of a later promotion. It must not
// replace the version that the operator sets the channel back to.
func TestChannelSetBackDuringTheLastSoakRollsBack(t *testing.T) {
	r := carriedOut("")
	r.Spec.Waves[1].Soak = minutes(60)
	runtimes := []Runtime{grantedAgo(everyone[0], 5), grantedAgo(everyone[1], 5)}
	for range 2 {
		r.Status = Plan(first, r.Spec, r.Status, runtimes, PlanInput{ChannelVersion: "2.0.0", Now: noon}).Status
	}
	if r.Status.State != fleet.RolloutProgressing || !isUpdatedWherePossible(r.Status) {
		t.Fatalf("rollout has state %s: %s, want the last soak", r.Status.State, r.Status.Message)
	}
	round := EvaluateAll(policies("careful"), []fleet.Rollout{r}, map[Track]Followers{keda: {"1.0.0", runtimes}}, noon)
	if len(round.Create) != 0 || len(round.Update) != 1 || round.Update[0].Status.State != fleet.RolloutRollingBack {
		t.Fatalf("got new rollouts %+v and updates %+v, want a rollback", round.Create, round.Update)
	}
	for _, one := range runtimes {
		if d := round.Gates[keda].Decide(one.ID, "2.0.0"); d.Version != "1.0.0" || d.ReplacedVersion != "2.0.0" {
			t.Errorf("runtime %s: got %+v, want version 1.0.0", one.ID, d)
		}
	}
}

// The channel gets another version before the publisher has evaluated the undo.
func TestUndoEndsBeforeTheNextPromotion(t *testing.T) {
	runtimes := []Runtime{grantedAgo(everyone[0], 5), grantedAgo(everyone[1], 5)}
	following := map[Track]Followers{keda: {"3.0.0", runtimes}}
	for _, state := range []fleet.RolloutState{fleet.RolloutSucceeded, fleet.RolloutStopped, ""} {
		r := carriedOut(state)
		r.Spec.Undo = true
		round := EvaluateAll(policies("careful"), []fleet.Rollout{r}, following, noon)
		if len(round.Create) != 0 || len(round.Update) != 1 || round.Update[0].Status.State != fleet.RolloutRollingBack {
			t.Fatalf("state %q: got new rollouts %+v and updates %+v, want a rollback", state, round.Create, round.Update)
		}
		r.Status.State = fleet.RolloutRolledBack
		round = EvaluateAll(policies("careful"), []fleet.Rollout{r}, following, noon)
		if len(round.Create) != 1 || round.Create[0].Spec.From != "1.0.0" || round.Create[0].Spec.To != "3.0.0" {
			t.Errorf("state %q: got new rollouts %+v, want one from 1.0.0 to 3.0.0", state, round.Create)
		}
	}
}

func TestUndoReturnsRuntimesOfTheStoppedRolloutBeforeTheRetry(t *testing.T) {
	stopped := carriedOut(fleet.RolloutStopped)
	stopped.Spec.Retry = true
	early, late := grantedAgo(everyone[0], 50), everyone[1]
	all := func() map[Track]Followers { return map[Track]Followers{keda: {"2.0.0", []Runtime{early, late}}} }
	round := EvaluateAll(policies("careful"), []fleet.Rollout{stopped}, all(), noon)
	if len(round.Create) != 1 || !slices.Equal(round.Create[0].Spec.Predecessors, []string{first}) {
		t.Fatalf("got new rollouts %+v, want one with predecessor %s", round.Create, first)
	}
	retry := *round.Create[0]
	retry.ResourceVersion, retry.Spec.Undo = "8", true
	late = grantedAgo(late, 5)
	late.Selection.Rollout = retry.Name
	evaluate := func(want fleet.RolloutState) *Gate {
		t.Helper()
		round := EvaluateAll(policies("careful"), []fleet.Rollout{stopped, retry}, all(), noon)
		for _, r := range round.Update {
			retry = *r
		}
		if retry.Status.State != want {
			t.Fatalf("got state %s, want %s", retry.Status.State, want)
		}
		return round.Gates[keda]
	}
	for range 2 {
		gate := evaluate(fleet.RolloutRollingBack)
		for _, one := range []Runtime{early, late} {
			if d := gate.Decide(one.ID, "2.0.0"); d.Version != "1.0.0" || d.ReplacedVersion != "2.0.0" {
				t.Errorf("runtime %s: got %+v, want version 1.0.0", one.ID, d)
			}
			if reason := NewHolder(&retry).HeldReason(&one); reason == "" {
				t.Errorf("runtime %s: got no reason for the rollback", one.ID)
			}
		}
	}
	late.Version = "1.0.0"
	evaluate(fleet.RolloutRollingBack)
	early.Version, early.Selection = "1.0.0", late.Selection
	evaluate(fleet.RolloutRolledBack)
	if retry.Status.Reverted != 2 {
		t.Errorf("got %d reverted runtimes, want 2", retry.Status.Reverted)
	}
}

func TestPredecessorsEndAtTheLastSuccess(t *testing.T) {
	stopped, succeeded := carriedOut(fleet.RolloutStopped), carriedOut(fleet.RolloutSucceeded)
	stopped.Name, succeeded.Name, succeeded.Spec.Revision = "stopped", "succeeded", 2
	next := succeeded.Spec
	next.Revision = 3
	if r := newRollout(keda, next, []*fleet.Rollout{&stopped, &succeeded}); len(r.Spec.Predecessors) > 0 {
		t.Errorf("got predecessors %v, want none", r.Spec.Predecessors)
	}
	succeeded.Status.State = fleet.RolloutRolledBack
	r := newRollout(keda, next, []*fleet.Rollout{&stopped, &succeeded})
	if want := []string{"succeeded", "stopped"}; !slices.Equal(r.Spec.Predecessors, want) {
		t.Errorf("after a rollback: got predecessors %v, want %v", r.Spec.Predecessors, want)
	}
	succeeded.Spec.Predecessors = []string{"stopped", "deleted"}
	r = newRollout(keda, next, []*fleet.Rollout{&stopped, &succeeded})
	if want := []string{"succeeded", "stopped", "deleted"}; !slices.Equal(r.Spec.Predecessors, want) {
		t.Errorf("deleted attempt: got predecessors %v, want %v", r.Spec.Predecessors, want)
	}
}
