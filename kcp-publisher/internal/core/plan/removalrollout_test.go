package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

var kedaRemoval = rollout.Track{Module: "keda", Channel: "regular", IsRemoval: true}

// leaving returns a Kyma whose runtime has keda 2.0.0, and whose status contains a decision about the removal of keda.
func leaving(name string, decision v1beta2.RemovalDecision) *v1beta2.Kyma {
	kyma := readyKyma(name)
	kyma.Status.Runtime.Key = &v1beta2.RuntimeKey{}
	kyma.Status.Runtime.Published.Given = nil
	kyma.Status.Runtime.Removals = []v1beta2.ModuleRemoval{
		{Module: "keda", Decision: decision, Time: metav1.NewTime(noon)},
	}
	return kyma
}

// left returns a Kyma after a rollout removed keda 2.0.0 from its runtime.
func left(name string) *v1beta2.Kyma {
	kyma := leaving(name, v1beta2.RemovalAllowed)
	kyma.Status.Runtime.Removals[0].Published = true
	kyma.Status.Runtime.Published.Versions = nil
	kyma.Status.Runtime.Published.Given = map[string]v1beta2.GivenVersion{"keda": {
		Rollout: "keda-regular-removed-1", State: v1beta2.StateReady, Ready: true, RemovedVersion: "2.0.0",
		RemovedChannel: "regular",
	}}
	return kyma
}

func TestRemovalRolloutRuntimesComeFromKymaStatus(t *testing.T) {
	hasModule := func(r rollout.Runtime) rollout.Runtime {
		r.LastReport.KnownAt, r.Version, r.RemovalDecidedAt = noon, "2.0.0", noon
		return r
	}
	for name, c := range map[string]struct {
		kyma    *v1beta2.Kyma
		change  func(*v1beta2.Kyma)
		track   rollout.Track
		channel string
		want    *rollout.Runtime
	}{
		"no removal": {readyKyma("one"), nil, kedaRemoval, "", nil},
		"removal that waits for approval": {
			leaving("one", v1beta2.RemovalHeld), nil, kedaRemoval, fleet.VersionRemoved,
			new(hasModule(rollout.Runtime{RemovalHeld: true, IsCurrent: true, State: v1beta2.StateReady})),
		},
		"allowed removal": {
			leaving("one", v1beta2.RemovalAllowed), nil, kedaRemoval, fleet.VersionRemoved,
			new(hasModule(rollout.Runtime{IsCurrent: true, State: v1beta2.StateReady})),
		},
		"allowed removal of a mandatory module": {
			leaving("one", v1beta2.RemovalAllowed),
			func(k *v1beta2.Kyma) { k.Status.Runtime.Published.Mandatory = []string{"keda"} },
			rollout.Track{Module: "keda", IsRemoval: true}, fleet.VersionRemoved,
			new(hasModule(rollout.Runtime{IsCurrent: true, State: v1beta2.StateReady})),
		},
		"module that only the report contains": {
			leaving("one", v1beta2.RemovalAllowed), func(k *v1beta2.Kyma) { k.Status.Runtime.Published.Versions = nil },
			kedaRemoval, "", nil,
		},
		"removed module": {
			left("one"), nil, kedaRemoval, fleet.VersionRemoved, &rollout.Runtime{
				LastReport: heardAtNoon, Version: fleet.VersionRemoved, IsCurrent: true, State: v1beta2.StateReady,
				RemovalDecidedAt: noon,
			},
		},
		"removed module that the runtime does not request anymore": {
			left("one"), func(k *v1beta2.Kyma) { k.Spec.Modules = nil }, kedaRemoval, "", nil,
		},
		"restored module": {
			left("one"), func(k *v1beta2.Kyma) {
				k.Status.Runtime.Published.Versions = map[string]string{"keda": "2.0.0"}
			}, kedaRemoval, "", &rollout.Runtime{
				LastReport: heardAtNoon, Version: "2.0.0", IsCurrent: true, State: v1beta2.StateReady,
			},
		},
		"deleted Kyma": {leaving("one", v1beta2.RemovalAllowed), func(k *v1beta2.Kyma) {
			k.DeletionTimestamp = new(metav1.NewTime(noon))
		}, kedaRemoval, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.kyma)
			}
			seen, found := Tracks([]Member{{Kyma: c.kyma, Runtime: "one", LastReport: LastReport(c.kyma, nil, time.Time{})}},
				nil)[c.track]
			require.Equal(t, c.want != nil, found)
			if c.want == nil {
				return
			}
			got := seen.Runtimes[0]
			got.ID, got.Labels, got.Selection = "", nil, nil
			require.Equal(t, *c.want, got)
			require.Equal(t, c.channel, seen.Channel)
		})
	}
}

// gateOf returns the gates for a rollout that removes keda from these runtimes and is in this state.
func gateOf(t *testing.T, state fleet.RolloutState, kymas ...*v1beta2.Kyma) rollout.Gates {
	t.Helper()
	policies := removalPolicies()
	var members []Member
	for _, k := range kymas {
		members = append(members, Member{Kyma: k, Runtime: RuntimeID(k), LastReport: LastReport(k, nil, time.Time{})})
	}
	round := rollout.EvaluateAll(policies, nil, Tracks(members, nil), noon.Add(time.Minute))
	require.Len(t, round.Create, 1)
	created := *round.Create[0]
	created.ResourceVersion = "1"
	if created.Status.State = state; state == fleet.RolloutSucceeded {
		created.Status.FinishedAt = new(metav1.NewTime(noon))
	}
	return rollout.EvaluateAll(policies, []fleet.Rollout{created}, Tracks(members, nil), noon.Add(time.Minute)).Gates
}

func removalPolicies() []fleet.RolloutPolicy {
	return []fleet.RolloutPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "careful"}, Spec: fleet.RolloutPolicySpec{
		Course: fleet.Course{OfflineAfter: metav1.Duration{Duration: time.Hour}, Waves: []fleet.Wave{
			{Name: "canaries", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "canary"}}},
			{Name: "all", Percent: new(int32(100))},
		}},
	}}}
}

func canary(k *v1beta2.Kyma) *v1beta2.Kyma {
	k.Labels = map[string]string{"stage": "canary"}
	return k
}

func TestRemovalWaitsForTheRolloutOfItsPolicy(t *testing.T) {
	const held = "rollout keda-regular-removed-1 holds the removal: wave all"
	first, other := canary(leaving("first", v1beta2.RemovalAllowed)), leaving("other", v1beta2.RemovalAllowed)
	removedFirst, back := canary(left("first")), rollout.Decision{
		Version: "2.0.0", ReplacedVersion: fleet.VersionRemoved,
		HeldReason: "rollout keda-regular-removed-1 rolled the removal back",
	}
	later := leaving("later", v1beta2.RemovalAllowed)
	later.Status.Runtime.Removals[0].Time = metav1.NewTime(noon.Add(time.Minute))
	for name, c := range map[string]struct {
		view View
		kyma *v1beta2.Kyma
		want *rollout.Decision
	}{
		"no policy": {View{}, other, nil},
		"policy without a rollout": {
			View{Policies: removalPolicies()}, other, &rollout.Decision{HeldReason: rollout.PlannedRemoval.HeldReason},
		},
		"started wave": {View{Gates: gateOf(t, "", first, other)}, first, nil},
		"later wave": {
			View{Gates: gateOf(t, "", first, other)}, other, &rollout.Decision{Version: "2.0.0", HeldReason: held},
		},
		"new runtime": {
			View{Gates: gateOf(t, "", first, other)}, later,
			&rollout.Decision{Version: "2.0.0", HeldReason: "rollout keda-regular-removed-1 holds the removal"},
		},
		"successful removal": {View{Gates: gateOf(t, fleet.RolloutSucceeded, first, other)}, other, nil},
		"removal that starts after the rollout succeeded": {
			View{Gates: gateOf(t, fleet.RolloutSucceeded, first, other)}, later, &rollout.PlannedRemoval,
		},
		"rolled-back removal": {
			View{Gates: gateOf(t, fleet.RolloutRollingBack, removedFirst, other)}, removedFirst, &back,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.view.Catalog = hiding(t, "keda")
			request, err := c.view.Request(Rules{}, c.kyma, nil)
			require.NoError(t, err)
			got, found := request.RemovalGates["keda"]
			require.Equal(t, c.want != nil, found)
			if found {
				require.Equal(t, *c.want, got)
			}
		})
	}
}

func TestRemovedAndRestoredModulesAreRecorded(t *testing.T) {
	first, other := canary(leaving("first", v1beta2.RemovalAllowed)), leaving("other", v1beta2.RemovalAllowed)
	without := PublishedBundle{Versions: map[string]string{}, Predicate: bundle.Predicate{IssuedAt: noon}}
	with := PublishedBundle{Versions: map[string]string{"keda": "2.0.0"}, Predicate: bundle.Predicate{IssuedAt: noon},
		State: bundle.DesiredState{Manifests: []bundle.Manifest{{Module: "keda", Channel: "regular", Version: "2.0.0"}}}}
	record := v1beta2.GivenVersion{Rollout: "keda-regular-removed-1", Time: metav1.NewTime(noon), RemovedVersion: "2.0.0",
		RemovedChannel: "regular"}

	view := View{Gates: gateOf(t, "", first, other)}
	require.Equal(t, record, view.SelectedVersions("first", without, first)["keda"], "removed by the rollout")
	require.Empty(t, view.SelectedVersions("other", without, other), "removed for another reason")
	require.Empty(t, (&View{}).SelectedVersions("other", without, other), "removed without a rollout")

	removed := canary(left("first"))
	kept := view.SelectedVersions("first", without, removed)["keda"]
	require.Equal(t, removed.Status.Runtime.Published.Given["keda"], kept, "later bundle without the module")
	back := View{Gates: gateOf(t, fleet.RolloutRollingBack, removed, other)}
	require.Equal(t, record, back.SelectedVersions("first", with, removed)["keda"], "restored by the rollout")
	require.Empty(t, (&View{}).SelectedVersions("first", with, removed), "offered again")
}

func TestRemovalDecisionStaysUntilItsWaveStarts(t *testing.T) {
	before := []v1beta2.ModuleRemoval{{Module: "keda", Decision: v1beta2.RemovalApproved, Time: metav1.NewTime(noon)}}
	v := RemovalDecision{RemovedModules: []string{"istio", "keda"}}
	v.WaitForRollouts(map[string]rollout.Decision{"keda": {HeldReason: "wave all"}})
	require.Equal(t, []string{"istio"}, v.RemovedModules)
	require.Equal(t, before, RemovalStatuses(before, v, nil, noon.Add(time.Minute)))

	// A restored module can be removed again by a retry, without another approval.
	before[0].Decision, before[0].Published = v1beta2.RemovalAllowed, true
	got := RemovalStatuses(before, RemovalDecision{Restored: []string{"keda"}}, nil, noon.Add(time.Minute))
	require.Len(t, got, 1)
	require.Equal(t, v1beta2.RemovalApproved, got[0].Decision)
	require.False(t, got[0].Published)
}

func TestPreviewShowsRolloutOfARemoval(t *testing.T) {
	first, other := canary(leaving("first", "")), leaving("other", "")
	for _, k := range []*v1beta2.Kyma{first, other} {
		k.Status.Runtime.Removals = nil
		k.Status.Conditions = []metav1.Condition{{Type: v1beta2.ConditionReporting, Status: metav1.ConditionTrue}}
	}
	for name, c := range map[string]struct {
		catalog *catalog.Snapshot
		want    int
	}{"visible": {offering(t, "keda"), 0}, "hidden": {hiding(t, "keda"), 1}} {
		t.Run(name, func(t *testing.T) {
			p := Rules{}.Preview(Fleet{Kymas: []v1beta2.Kyma{*first, *other}, Catalog: c.catalog,
				Policies: removalPolicies()}, noon)
			require.Len(t, p.Round.Create, c.want)
			request, err := p.Request(other)
			require.NoError(t, err)
			require.Len(t, request.RemovalGates, c.want)
		})
	}
}

func TestRemovalLimitsApplyBeforeTheRollout(t *testing.T) {
	v := RemovalDecision{HeldReasons: map[string]removal.Reason{"keda": removal.FleetShare}}
	v.WaitForRollouts(map[string]rollout.Decision{"keda": {HeldReason: "wave all"}})
	require.Empty(t, v.Waiting)
	require.Equal(t, []string{"keda"}, v.HeldModules())
}
