package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

var (
	keda        = rollout.Track{Module: "keda", Channel: "regular"}
	heardAtNoon = silence.LastReport{KnownAt: noon}
)

func offering(tb testing.TB, modules ...string) *catalog.Snapshot {
	tb.Helper()
	return offeringAs(tb, false, modules...)
}

// hiding returns a catalog with beta modules.
func hiding(tb testing.TB, modules ...string) *catalog.Snapshot {
	tb.Helper()
	return offeringAs(tb, true, modules...)
}

func offeringAs(tb testing.TB, beta bool, modules ...string) *catalog.Snapshot {
	tb.Helper()
	var templates []v1beta2.ModuleTemplate
	var metas []v1beta2.ModuleReleaseMeta
	for _, m := range modules {
		templates = append(templates, v1beta2.ModuleTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: m + "-2.0.0"},
			Spec: v1beta2.ModuleTemplateSpec{
				ModuleName: m, Version: "2.0.0", Descriptor: runtime.RawExtension{Raw: []byte("{}")},
			},
		})
		metas = append(metas, v1beta2.ModuleReleaseMeta{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: m},
			Spec: v1beta2.ModuleReleaseMetaSpec{
				ModuleName: m, OcmComponentName: "kyma-pull.dev/module/" + m, Beta: beta,
				Channels: []v1beta2.ChannelVersion{{Channel: "regular", Version: "2.0.0"}},
			},
		})
	}
	snapshot, err := catalog.New(templates, metas)
	if err != nil {
		tb.Fatal(err)
	}
	return snapshot
}

// readyKyma returns a Kyma whose runtime has reported keda 2.0.0 as ready.
func readyKyma(name string) *v1beta2.Kyma {
	kyma := kymaOf(name)
	kyma.Spec = v1beta2.KymaSpec{Channel: "regular", Modules: []v1beta2.Module{{Name: "keda", Managed: true}}}
	kyma.Status.Modules = []v1beta2.ModuleStatus{{Name: "keda", State: v1beta2.StateReady, Version: "2.0.0"}}
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{
		Observed: &v1beta2.ObservedBundle{
			Time: metav1.NewTime(noon), Features: []string{"checks"}, Digest: "sha256:a",
		},
		Published: &v1beta2.PublishedBundle{
			Digest: "sha256:a", Versions: map[string]string{"keda": "2.0.0"},
			Given: map[string]v1beta2.GivenVersion{
				"keda": {Rollout: "keda-regular-1", State: v1beta2.StateReady, Ready: true},
			},
		},
	}
	return kyma
}

func TestRolloutFactsComeFromKymaStatus(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1beta2.Kyma)
		want   rollout.Runtime
	}{
		"Report about the published bundle": {
			func(*v1beta2.Kyma) {}, rollout.Runtime{
				LastReport: heardAtNoon, Version: "2.0.0", IsCurrent: true, State: v1beta2.StateReady,
			},
		},
		"Agent without support for checks": {func(k *v1beta2.Kyma) { k.Status.Runtime.Observed.Features = nil },
			rollout.Runtime{
				LastReport: heardAtNoon, Version: "2.0.0", IsCurrent: true, State: v1beta2.StateReady, LacksChecks: true,
			}},
		"Published bundle not reported yet": {func(k *v1beta2.Kyma) {
			k.Status.Runtime.Published.Given["keda"] = v1beta2.GivenVersion{Rollout: "keda-regular-1"}
		}, rollout.Runtime{LastReport: heardAtNoon, Version: "2.0.0"}},
		"Version published without a rollout": {
			func(k *v1beta2.Kyma) {
				k.Status.Runtime.Published.Given = nil
			}, rollout.Runtime{LastReport: heardAtNoon, Version: "2.0.0", IsCurrent: true, State: v1beta2.StateReady},
		},
		"Version published without a rollout, report about an earlier bundle": {
			func(k *v1beta2.Kyma) {
				k.Status.Runtime.Published.Given, k.Status.Runtime.Published.Digest = nil, "sha256:newer"
			}, rollout.Runtime{LastReport: heardAtNoon, Version: "2.0.0"},
		},
		"Version published without a rollout, another version reported": {
			func(k *v1beta2.Kyma) {
				k.Status.Runtime.Published.Given, k.Status.Modules[0].Version = nil, "1.0.0"
			}, rollout.Runtime{LastReport: heardAtNoon, Version: "2.0.0"},
		},
		"Version published without a rollout, runtime never reported": {
			func(k *v1beta2.Kyma) {
				k.Status.Runtime.Published.Given, k.Status.Runtime.Observed = nil, nil
			}, rollout.Runtime{Version: "2.0.0"},
		},
		"Upgrade waits for its maintenance window": {func(k *v1beta2.Kyma) {
			k.Status.Runtime.Published.Given["keda"] = v1beta2.GivenVersion{Rollout: "keda-regular-1"}
			k.Status.Modules[0].Maintenance, k.Status.Modules[0].Message = true, "waits"
		}, rollout.Runtime{LastReport: heardAtNoon, Version: "2.0.0", WaitsForWindow: true, Message: "waits"}},
		"Publishing fails": {func(k *v1beta2.Kyma) {
			k.Status.Conditions = []metav1.Condition{
				{Type: v1beta2.ConditionReady, Status: metav1.ConditionFalse, Reason: v1beta2.ReasonPublishFailed},
			}
		}, rollout.Runtime{
			LastReport: heardAtNoon, Unpublishable: true, Version: "2.0.0", IsCurrent: true, State: v1beta2.StateReady,
		}},
		"Promoted version cannot be resolved": {func(k *v1beta2.Kyma) {
			k.Status.Runtime.Reasons = &v1beta2.RuntimeReasons{Modules: []v1beta2.ModuleReasons{
				{Name: "nats", Problem: "ValueUndefined", Version: "1.0.0"},
				{Name: "keda", Problem: "ValueUndefined", Version: "3.0.0"},
			}}
		}, rollout.Runtime{
			LastReport: heardAtNoon, UnresolvedVersion: "3.0.0", Version: "2.0.0", IsCurrent: true, State: v1beta2.StateReady,
		}},
		"Runtime never reported": {func(k *v1beta2.Kyma) { k.Status.Runtime = nil }, rollout.Runtime{}},
	} {
		t.Run(name, func(t *testing.T) {
			kyma := readyKyma("one")
			c.change(kyma)
			got := moduleRuntime(kyma, "one", "keda", LastReport(kyma, nil, time.Time{}))
			got.Selection, got.Labels, got.ID = nil, nil, ""
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// Rollouts do not count the runtime of a deleted Kyma. The runtime keeps its modules while their removal waits for
// approval.
func TestDeletedKymaGetsNoUpgrade(t *testing.T) {
	for name, c := range map[string]struct {
		isDeleted, hasRollout bool
		published, want       string
	}{
		"Kyma that is not deleted":          {false, true, "1.0.0", ""},
		"deleted, without a rollout":        {true, false, "1.0.0", "1.0.0"},
		"deleted, after a rollout":          {true, true, "1.0.0", "1.0.0"},
		"deleted, with the current version": {true, true, "2.0.0", ""},
		"deleted, without the module":       {true, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			kyma, view := readyKyma("one"), &View{Catalog: offering(t, "keda")}
			kyma.Status.Runtime.Published.Versions = map[string]string{"keda": c.published}
			if c.isDeleted {
				kyma.DeletionTimestamp = new(metav1.NewTime(noon))
			}
			if c.hasRollout {
				view.Gates = rollout.Gates{keda: rollout.NewGate(&fleet.Rollout{
					Spec:   fleet.RolloutSpec{From: "1.0.0", To: "2.0.0"},
					Status: fleet.RolloutStatus{State: fleet.RolloutSucceeded},
				}, rollout.Step{Status: fleet.RolloutStatus{State: fleet.RolloutSucceeded}}, nil)}
			}
			request, err := view.Request(Rules{}, kyma, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := request.Gates[keda].Version; got != c.want {
				t.Errorf("the request allows version %q, want %q: %+v", got, c.want, request.Gates)
			}
		})
	}
}

func TestRolloutTracksContainOnlyManagedRuntimes(t *testing.T) {
	leaving, skipped := readyKyma("leaving"), readyKyma("skipped")
	twin, elsewhere := readyKyma("twin"), readyKyma("elsewhere")
	leaving.DeletionTimestamp = &metav1.Time{Time: noon}
	skipped.Labels = map[string]string{v1beta2.LabelSkipReconciliation: v1beta2.True}
	twin.Labels = map[string]string{v1beta2.LabelRuntimeID: "one"}
	twin.CreationTimestamp = metav1.NewTime(noon)
	elsewhere.Spec.Channel = "fast"
	one := readyKyma("one")
	one.Status.Runtime.Key = &v1beta2.RuntimeKey{Thumbprint: "t"}
	tracks := Tracks(Members([]v1beta2.Kyma{*twin, *one, *leaving, *skipped, *elsewhere}, offering(t, "keda")), nil)
	if len(tracks) != 1 || len(tracks[keda].Runtimes) != 1 || tracks[keda].Runtimes[0].ID != "one" ||
		tracks[keda].Channel != "2.0.0" {
		t.Errorf("got tracks %+v, want keda in channel regular with runtime one", tracks)
	}
}

func TestKymaChangeThatAffectsRolloutsIsDetected(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1beta2.Kyma)
		moves  bool
	}{
		"repeated report": {func(k *v1beta2.Kyma) {
			k.Status.Runtime.Observed.Time, k.Status.Runtime.ReportSequence = metav1.NewTime(noon.Add(time.Minute)), 9
		}, false},
		"version changed": {func(k *v1beta2.Kyma) { k.Status.Runtime.Published.Versions["keda"] = "3.0.0" }, true},
		"reported state changed": {
			func(k *v1beta2.Kyma) { k.Status.Runtime.Published.Given["keda"] = v1beta2.GivenVersion{} }, true,
		},
		"check result changed": {func(k *v1beta2.Kyma) {
			given := k.Status.Runtime.Published.Given["keda"]
			given.Checks = []v1beta2.CheckOutcome{{Name: "works", Result: v1beta2.CheckFailed}}
			k.Status.Runtime.Published.Given["keda"] = given
		}, true},
		"agent downgraded": {func(k *v1beta2.Kyma) { k.Status.Runtime.Observed.Features = nil }, true},
		"labels changed":   {func(k *v1beta2.Kyma) { k.Labels = map[string]string{"stage": "dev"} }, true},
		"request changed": {func(k *v1beta2.Kyma) {
			k.Status.Runtime.Requested = &v1beta2.RequestedSpec{Spec: v1beta2.KymaSpec{Channel: "fast"}}
		}, true},
		"state of a version without a rollout changed": {func(k *v1beta2.Kyma) {
			k.Status.Modules = append(slices.Clone(k.Status.Modules),
				v1beta2.ModuleStatus{Name: "serverless", Version: "1.0.0", State: v1beta2.StateReady})
		}, true},
	} {
		before := readyKyma("one")
		before.Status.Runtime.Published.Versions["serverless"] = "1.0.0"
		after := before.DeepCopy()
		c.change(after)
		if got := AffectsRollouts(before, after); got != c.moves {
			t.Errorf("%s: got affects rollouts %t, want %t", name, got, c.moves)
		}
	}
}

func fleetOf10000(b *testing.B) ([]v1beta2.Kyma, *catalog.Snapshot) {
	var modules []string
	first := readyKyma("runtime")
	first.Spec.Modules, first.Status.Modules = nil, nil
	for i := range 50 {
		m := fmt.Sprint("module-", i)
		modules = append(modules, m)
		first.Spec.Modules = append(first.Spec.Modules, v1beta2.Module{Name: m, Managed: true})
		first.Status.Modules = append(first.Status.Modules, v1beta2.ModuleStatus{Name: m, State: v1beta2.StateReady})
		first.Status.Runtime.Published.Versions[m] = "1.0.0"
	}
	kymas := make([]v1beta2.Kyma, 10_000)
	for i := range kymas {
		kymas[i] = *first
		kymas[i].Name = fmt.Sprint("runtime-", i)
		kymas[i].UID, kymas[i].ResourceVersion = types.UID(kymas[i].Name), "1"
	}
	return kymas, offering(b, modules...)
}

func BenchmarkMembers(b *testing.B) {
	kymas, snapshot := fleetOf10000(b)
	cache := &MemberCache{}
	b.ReportAllocs()
	for b.Loop() {
		if tracks := Tracks(cache.Members(kymas, snapshot), nil); len(tracks) != 50 {
			b.Fatal(len(tracks))
		}
	}
}

// Only one module and channel has a rollout in progress.
func BenchmarkMembersOfOneRollout(b *testing.B) {
	kymas, snapshot := fleetOf10000(b)
	cache := &MemberCache{}
	atRest := func(track rollout.Track, _ string) bool { return track.Module != "module-0" }
	b.ReportAllocs()
	for b.Loop() {
		tracks := Tracks(cache.Members(kymas, snapshot), atRest)
		if n := len(tracks[rollout.Track{Module: "module-0", Channel: "regular"}].Runtimes); n != len(kymas) {
			b.Fatal(n)
		}
	}
}

func TestMemberCacheIsInvalidatedByChanges(t *testing.T) {
	one := readyKyma("one")
	one.UID, one.ResourceVersion = "one", "1"
	cache, before := &MemberCache{}, offering(t, "keda")
	follows := func(kyma *v1beta2.Kyma, with *catalog.Snapshot) int {
		return len(cache.Members([]v1beta2.Kyma{*kyma}, with)[0].FollowedChannels)
	}
	if got := follows(one, before); got != 1 {
		t.Fatalf("got %d followed modules, want 1", got)
	}
	changed := one.DeepCopy()
	changed.Spec.Modules, changed.ResourceVersion = nil, "2"
	if got := follows(changed, before); got != 0 {
		t.Errorf("after a change to the Kyma: got %d followed modules, want 0", got)
	}
	if got := follows(one, offering(t)); got != 0 {
		t.Errorf("after a change to the catalog: got %d followed modules, want 0", got)
	}
}

func TestChannelWithoutPendingRolloutListsNoRuntimes(t *testing.T) {
	all := Members([]v1beta2.Kyma{*readyKyma("one")}, offering(t, "keda"))
	resting := Tracks(all, func(track rollout.Track, channel string) bool {
		return track == keda && channel == "2.0.0"
	})
	if seen, followed := resting[keda]; !followed || seen.Channel != "2.0.0" || len(seen.Runtimes) != 0 {
		t.Errorf("got followers %+v, followed %t, want the channel's version without runtimes", seen, followed)
	}
}
