package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout/changes"
)

var everyone = []Runtime{at("dev", "dev", "1.0.0"), at("prod", "prod", "1.0.0")}

func policies(names ...string) []fleet.RolloutPolicy {
	var all []fleet.RolloutPolicy
	for _, name := range names {
		p := fleet.RolloutPolicy{Spec: fleet.RolloutPolicySpec{Course: twoWaves().Course}}
		p.Name = name
		all = append(all, p)
	}
	return all
}

func carriedOut(state fleet.RolloutState) fleet.Rollout {
	r := fleet.Rollout{Spec: twoWaves()}
	r.Name, r.ResourceVersion = first, "7"
	r.Status = Plan(first, r.Spec, fleet.RolloutStatus{}, everyone, PlanInput{ChannelVersion: "2.0.0", Now: noon}).Status
	if state != "" {
		r.Status.State = state
	}
	r.Generation, r.Status.ObservedGeneration = 1, 1
	r.Status.Conditions = conditions(nil, r.Status, noon)
	return r
}

func TestRolloutsAreCreatedAndContinued(t *testing.T) {
	following := func(version string) map[Track]Followers {
		return map[Track]Followers{keda: {Channel: version, Runtimes: everyone}}
	}
	for name, c := range map[string]struct {
		policies  []fleet.RolloutPolicy
		rollouts  []fleet.Rollout
		followers map[Track]Followers
		made      string
		// dev and prod are the versions that the runtimes with these names can have. They are empty without a gate.
		dev, prod string
	}{
		"Channel without a policy and rollouts": {followers: following("2.0.0")},
		"All runtimes have the channel's version": {
			policies: policies("careful"), followers: following("1.0.0"),
		},
		"Promotion creates a rollout that starts its first wave": {
			policies: policies("careful"), followers: following("2.0.0"), made: "keda-regular-1", dev: "2.0.0",
			prod: "1.0.0",
		},
		"Promotion whose Rollout was lost": {
			policies: policies("careful"), made: "keda-regular-1", dev: "2.0.0", prod: "2.0.0",
			followers: map[Track]Followers{keda: {Channel: "2.0.0", Runtimes: []Runtime{
				at("dev", "dev", "2.0.0"), at("dev-2", "dev", "2.0.0"), at("prod", "prod", "1.0.0"),
			}}},
		},
		"First of two policies by name applies": {
			policies: policies("slow", "careful"), followers: following("2.0.0"), made: "keda-regular-1", dev: "2.0.0",
			prod: "1.0.0",
		},
		"Active rollout continues without its policy": {
			rollouts: []fleet.Rollout{carriedOut("")}, followers: following("2.0.0"), dev: "2.0.0", prod: "1.0.0",
		},
		"Promotion during an active rollout without its policy": {
			rollouts: []fleet.Rollout{carriedOut("")}, followers: following("3.0.0"), made: "keda-regular-2",
			dev: "3.0.0", prod: "1.0.0",
		},
		"Stopped rollout without its policy": {
			rollouts: []fleet.Rollout{carriedOut(fleet.RolloutStopped)}, followers: following("2.0.0"), dev: "1.0.0",
			prod: "1.0.0",
		},
		"Promotion after a stopped rollout without its policy": {
			rollouts: []fleet.Rollout{carriedOut(fleet.RolloutStopped)}, followers: following("3.0.0"),
		},
		"Promotion after a stopped rollout with its policy": {
			policies: policies("careful"), rollouts: []fleet.Rollout{carriedOut(fleet.RolloutRolledBack)},
			followers: following("3.0.0"), made: "keda-regular-2", dev: "3.0.0", prod: "1.0.0",
		},
		"Channel that no runtime follows does not change": {
			policies: policies("careful"), rollouts: []fleet.Rollout{carriedOut("")}, dev: "1.0.0", prod: "1.0.0",
		},
		"Promotion waits for a rollback": {
			policies: policies("careful"), rollouts: []fleet.Rollout{carriedOut(fleet.RolloutRollingBack)},
			followers: following("3.0.0"), dev: "1.0.0", prod: "1.0.0",
		},
		"Rollout that is being deleted is ignored": {
			rollouts: []fleet.Rollout{deleted(carriedOut(""))}, followers: following("2.0.0"),
		},
		"Succeeded rollout allows the version for all runtimes": {
			policies: policies("careful"), rollouts: []fleet.Rollout{carriedOut(fleet.RolloutSucceeded)},
			followers: following("2.0.0"), dev: "2.0.0", prod: "2.0.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			round := EvaluateAll(c.policies, c.rollouts, c.followers, noon)
			made := ""
			for _, r := range round.Create {
				made += r.Name
			}
			if made != c.made {
				t.Errorf("got created rollouts %q, want %q", made, c.made)
			}
			gate := round.Gates[keda]
			if (gate == nil) != (c.dev == "") {
				t.Fatalf("got gate %+v, want a gate only if a version is expected", gate)
			}
			if gate == nil {
				return
			}
			if dev, prod := gate.Decide("dev", "1.0.0"), gate.Decide("prod", "1.0.0"); dev.Version != c.dev ||
				prod.Version != c.prod {
				t.Errorf("got decision %+v for dev and %+v for prod, want %s and %s", dev, prod, c.dev, c.prod)
			}
			for i, r := range round.Create {
				if r.Spec.Policy != "careful" || round.Create[i].Status.State == "" {
					t.Errorf("got created rollout %+v, want policy careful and a state", r)
				}
			}
		})
	}
}

func deleted(r fleet.Rollout) fleet.Rollout {
	r.DeletionTimestamp = &metav1.Time{Time: noon}
	return r
}

func TestChannelWithoutRuntimesChangesNoRollout(t *testing.T) {
	started := carriedOut("")
	round := EvaluateAll(policies("careful"), []fleet.Rollout{started}, nil, noon.Add(time.Hour))
	if len(round.Update)+len(round.Create) > 0 {
		t.Errorf("got updated rollouts %+v, want none", round.Update)
	}
}

func TestUnchangedRolloutWritesNothing(t *testing.T) {
	all := []fleet.Rollout{carriedOut("")}
	round := EvaluateAll(policies("careful"), all, map[Track]Followers{keda: {"2.0.0", everyone}}, noon.Add(time.Second))
	if len(round.Create)+len(round.Update)+len(round.Delete) > 0 || !round.IsActive {
		t.Errorf("got round %+v, want an active round without changes", round)
	}
}

func TestRestartedPublisherSupersedesOlderRollout(t *testing.T) {
	older, newer := carriedOut(""), carriedOut("")
	newer.Name, newer.Spec.Revision, newer.Spec.To, newer.Status = "keda-regular-2", 2, "3.0.0", fleet.RolloutStatus{}
	round := EvaluateAll(policies("careful"), []fleet.Rollout{older, newer},
		map[Track]Followers{keda: {"3.0.0", everyone}},
		noon)
	if len(round.Create) > 0 || len(round.Update) != 2 || round.Update[1].Name != first ||
		round.Update[1].Status.State != fleet.RolloutSuperseded {
		t.Errorf("got updated rollouts %+v, want the older rollout superseded", round.Update)
	}
}

func TestOldRolloutsAreDeleted(t *testing.T) {
	var all []fleet.Rollout
	for i := range maxKeptRollouts + 3 {
		r := carriedOut(fleet.RolloutSucceeded)
		r.Spec.Revision = int64(i + 1)
		r.Name = ObjectName(keda, r.Spec.Revision)
		all = append(all, r)
	}
	round := EvaluateAll(policies("careful"), all, map[Track]Followers{keda: {"2.0.0", everyone}}, noon)
	forgotten := ""
	for _, r := range round.Delete {
		forgotten += " " + r.Name
	}
	if forgotten != " keda-regular-3 keda-regular-2 keda-regular-1" {
		t.Errorf("got deleted rollouts%s, want the three oldest", forgotten)
	}
}

func TestRecreatedRolloutReachesRolledBackRuntimes(t *testing.T) {
	back := grantedAgo(at("dev", "dev", ""), 30)
	back.Version = "1.0.0" // rolled back by a deleted rollout with the same name
	step := Plan(first, twoWaves(), fleet.RolloutStatus{}, []Runtime{back, everyone[1]},
		PlanInput{ChannelVersion: "2.0.0", Now: noon})
	if step.Decisions[0].Version != "2.0.0" || step.Status.Waves[0].Total != 1 {
		t.Errorf("got decision %+v and wave %+v, want version 2.0.0", step.Decisions[0], step.Status.Waves[0])
	}
}

func TestUpgradeThatWaitsForAWindowIsDeferred(t *testing.T) {
	waits := grantedAgo(at("dev", "dev", ""), 20) // longer ago than the deadline
	waits.IsCurrent, waits.WaitsForWindow = false, true
	step := Plan(first, twoWaves(), carriedOut("").Status, []Runtime{waits, everyone[1]},
		PlanInput{ChannelVersion: "2.0.0", Now: noon})
	if w := step.Status.Waves[0]; w.Deferred != 1 || w.Failed != 0 || step.Decisions[1].Version != "1.0.0" {
		t.Errorf("got wave %+v and decision %+v for production, want one deferred runtime", w, step.Decisions[1])
	}
	if !strings.Contains(step.Status.Message, "0 of 1 runtimes are updated") {
		t.Errorf("got rollout message %s, want 0 of 1 runtimes updated", step.Status.Message)
	}
}

func TestRollbackEndsAtDeadlineOfUnpublishableRuntime(t *testing.T) {
	broken := grantedAgo(at("dev", "dev", ""), 1)
	broken.State, broken.Message = "Error", "crashes"
	runtimes := []Runtime{broken, everyone[1]}
	back := Plan(first, twoWaves(), carriedOut("").Status, runtimes, PlanInput{ChannelVersion: "2.0.0", Now: noon})
	for _, c := range []struct {
		minutes int
		want    fleet.RolloutState
	}{{9, fleet.RolloutRollingBack}, {11, fleet.RolloutRolledBack}} {
		later := Plan(first, twoWaves(), back.Status, runtimes, PlanInput{
			ChannelVersion: "2.0.0", Now: noon.Add(time.Duration(c.minutes) * time.Minute),
		})
		if d := later.Decisions[0]; later.Status.State != c.want || d.Version != "1.0.0" || d.ReplacedVersion != "2.0.0" {
			t.Errorf("after %d minutes: got state %s and decision %+v, want %s and a rollback", c.minutes,
				later.Status.State, d, c.want)
		}
	}
}

func TestRolledBackRolloutKeepsItsFailures(t *testing.T) {
	started := carriedOut("").Status
	if last := started.Waves[len(started.Waves)-1]; !last.All || last.Place != nil {
		t.Errorf("got wave for all other runtimes %+v", last)
	}
	broken := grantedAgo(at("dev", "dev", ""), 1)
	broken.State, broken.Message = "Error", "crashes"
	going := Plan(first, twoWaves(), started, []Runtime{broken, everyone[1]},
		PlanInput{ChannelVersion: "2.0.0", Now: noon}).Status
	back := grantedAgo(at("dev", "dev", ""), 1)
	back.Version = "1.0.0"
	done := Plan(first, twoWaves(), going, []Runtime{back, everyone[1]},
		PlanInput{ChannelVersion: "2.0.0", Now: noon}).Status
	if done.State != fleet.RolloutRolledBack || done.Failed != 1 || done.Reverted != 1 || len(done.Failures) != 1 {
		t.Errorf("got state %s, %d failed, %d reverted, failures %+v", done.State, done.Failed, done.Reverted,
			done.Failures)
	}
}

func TestRolloutConditionsMatchKstatus(t *testing.T) {
	for state, want := range map[fleet.RolloutState]status.Status{
		fleet.RolloutProgressing: status.InProgressStatus, fleet.RolloutPaused: status.InProgressStatus,
		fleet.RolloutWaiting:     status.InProgressStatus,
		fleet.RolloutRollingBack: status.InProgressStatus, fleet.RolloutStopped: status.FailedStatus,
		fleet.RolloutRolledBack: status.FailedStatus,
		fleet.RolloutSucceeded:  status.CurrentStatus, fleet.RolloutSuperseded: status.CurrentStatus,
	} {
		var round Round
		rollout := carriedOut("")
		rollout.Generation = 3
		round.addRollout(&rollout, fleet.RolloutStatus{State: state, Message: "m"}, noon)
		rollout.Status = round.Update[0].Status
		if got := kstatusOf(t, rollout); got != want {
			t.Errorf("state %s: got kstatus %s, want %s", state, got, want)
		}
		rollout.Generation = 4
		if got := kstatusOf(t, rollout); got != status.InProgressStatus {
			t.Errorf("state %s of an older spec: got kstatus %s, want %s", state, got, status.InProgressStatus)
		}
	}
}

func kstatusOf(t *testing.T, rollout fleet.Rollout) status.Status {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rollout)
	if err != nil {
		t.Fatal(err)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: content})
	if err != nil {
		t.Fatal(err)
	}
	return result.Status
}

func TestRolloutChangesAreReportedOnce(t *testing.T) {
	started := carriedOut("").Status
	if got := changes.Between(fleet.RolloutStatus{}, started); len(got) != 1 || got[0].Reason != "WaveStarted" {
		t.Errorf("first status: got changes %+v, want WaveStarted", got)
	}
	broken := grantedAgo(at("dev", "dev", ""), 1)
	broken.State, broken.Message = "Error", "crashes"
	stopped := Plan(first, twoWaves(), started, []Runtime{broken, everyone[1]},
		PlanInput{ChannelVersion: "2.0.0", Now: noon}).Status
	if got := changes.Between(started, stopped); len(got) != 1 || got[0].Type != "Warning" ||
		got[0].Reason != "RolloutRollingBack" ||
		got[0].Note != "wave development failed: 1 of 1 runtimes failed, maxFailures allows 0" {
		t.Errorf("failed wave: got changes %+v, want RolloutRollingBack with the failures", got)
	}
	if got := changes.Between(stopped, stopped); len(got) > 0 {
		t.Errorf("unchanged status: got changes %+v, want none", got)
	}
}

func BenchmarkNextRound(b *testing.B) {
	followers := map[Track]Followers{}
	var rollouts []fleet.Rollout
	policy := policies("careful")
	policy[0].Spec.Waves[0].Percent, policy[0].Spec.Waves[0].Selector = new(int32(5)), nil
	for module := range 50 {
		track := Track{Module: fmt.Sprint("module-", module), Channel: "regular"}
		runtimes := make([]Runtime, 10_000)
		for i := range runtimes {
			runtimes[i] = at(fmt.Sprint("runtime-", i), "prod", "1.0.0")
		}
		followers[track] = Followers{"2.0.0", runtimes}
	}
	for _, r := range EvaluateAll(policy, nil, followers, noon).Create {
		r.ResourceVersion = "1"
		rollouts = append(rollouts, *r)
		for i := range followers[Track{Module: r.Spec.Module, Channel: "regular"}].Runtimes {
			runtime := &followers[Track{Module: r.Spec.Module, Channel: "regular"}].Runtimes[i]
			if i%20 == 0 {
				*runtime = grantedAgo(*runtime, 1)
				runtime.Selection.Rollout = r.Name
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if round := EvaluateAll(policy, rollouts, followers, noon.Add(time.Minute)); len(round.Gates) != 50 ||
			len(round.Update) != 50 {
			b.Fatalf("got %d gates, %d updates", len(round.Gates), len(round.Update))
		}
	}
}

func TestChannelHasNoPendingRolloutAfterSuccess(t *testing.T) {
	policy := policies("careful")
	ended := func(change func(*fleet.Rollout)) []fleet.Rollout {
		r := fleet.Rollout{
			Spec: fleet.RolloutSpec{
				Module: keda.Module, Channel: keda.Channel, Revision: 1, From: "1.0.0", To: "2.0.0",
			},
		}
		r.Status.State = fleet.RolloutSucceeded
		change(&r)
		return []fleet.Rollout{r}
	}
	for name, c := range map[string]struct {
		policies []fleet.RolloutPolicy
		rollouts []fleet.Rollout
		want     bool
	}{
		"channel without policy and rollout": {nil, nil, true},
		"policy without a rollout":           {policy, nil, false},
		"rollout succeeded":                  {policy, ended(func(*fleet.Rollout) {}), true},
		"rollout undone":                     {policy, ended(func(r *fleet.Rollout) { r.Spec.Undo = true }), false},
		"channel has a different version":    {policy, ended(func(r *fleet.Rollout) { r.Spec.To = "1.5.0" }), false},
		"channel got another version without a policy": {policy, ended(func(r *fleet.Rollout) {
			r.Spec.To, r.Status.VersionWithoutPolicy = "1.5.0", "2.0.0"
		}), true},
		"channel has the rollout's version again": {policy, ended(func(r *fleet.Rollout) {
			r.Status.VersionWithoutPolicy = "1.5.0"
		}), false},
		"rollout stopped": {
			policy, ended(func(r *fleet.Rollout) { r.Status.State = fleet.RolloutStopped }), false,
		},
		"active rollout without a policy": {
			nil, ended(func(r *fleet.Rollout) { r.Status.State = fleet.RolloutProgressing }), false,
		},
		"rollout succeeded and is being deleted": {
			policy, ended(func(r *fleet.Rollout) { r.DeletionTimestamp = &metav1.Time{Time: noon} }), false,
		},
	} {
		if got := RestFilter(c.policies, c.rollouts, noon)(keda, "2.0.0"); got != c.want {
			t.Errorf("%s: got at rest %t, want %t", name, got, c.want)
		}
	}
}

func TestRolloutNamesDifferByModuleAndChannel(t *testing.T) {
	long := strings.Repeat("a", 200)
	seen := map[string]Track{}
	for _, module := range []string{
		"keda", "Keda", "KEDA", "k_eda", "k-eda", "k/eda", "kcp-system/keda", "kcp-system-keda", "kcp-system_keda",
		long, long + "b", long[:180], "kyma-project.io/module/keda", "kyma-project.io-module-keda",
	} {
		for _, channel := range []string{"regular", "fast"} {
			track := Track{Module: module, Channel: channel}
			name := ObjectName(track, 1)
			if other, is := seen[name]; is {
				t.Errorf("rollouts of %v and %v have the same name %s", track, other, name)
			}
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
				t.Errorf("rollout of %v has the invalid name %s: %v", track, name, problems)
			}
			seen[name] = track
		}
	}
	if name := ObjectName(keda, 3); name != "keda-regular-3" {
		t.Errorf("got name %s, want keda-regular-3", name)
	}
}
