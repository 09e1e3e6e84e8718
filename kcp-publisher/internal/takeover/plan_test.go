package takeover

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// offering returns a catalog with three versions of keda: 1.6.0 in channel slow, 1.7.0 in no channel, and 1.8.0 in
// channel regular. Version 1.8.0 requires downtime. The mandatory module guard has version 1.1.0.
func offering(t *testing.T) *catalog.Snapshot {
	t.Helper()
	var templates []v1beta2.ModuleTemplate
	for _, version := range []string{"1.6.0", "1.7.0", "1.8.0"} {
		templates = append(templates, v1beta2.ModuleTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "keda-" + version},
			Spec: v1beta2.ModuleTemplateSpec{ModuleName: "keda", Version: version, RequiresDowntime: version == "1.8.0",
				Descriptor: runtime.RawExtension{Raw: []byte("{}")}},
		})
	}
	templates = append(
		templates,
		v1beta2.ModuleTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "guard-1.1.0"},
			Spec: v1beta2.ModuleTemplateSpec{
				ModuleName: "guard",
				Version:    "1.1.0",
				Descriptor: runtime.RawExtension{Raw: []byte("{}")},
			}},
	)
	snapshot, err := catalog.New(templates, []v1beta2.ModuleReleaseMeta{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "keda"},
		Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: "keda", OcmComponentName: "kyma-project.io/module/keda",
			Channels: []v1beta2.ChannelVersion{
				{Channel: "regular", Version: "1.8.0"}, {Channel: "slow", Version: "1.6.0"},
			}},
	}, {
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "guard"},
		Spec: v1beta2.ModuleReleaseMetaSpec{
			ModuleName:       "guard",
			OcmComponentName: "kyma-project.io/module/guard",
			Mandatory:        &v1beta2.Mandatory{Version: "1.1.0"},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func reportedAs(version string) v1beta2.ModuleStatus {
	return v1beta2.ModuleStatus{Name: "keda", Version: version, Channel: "regular", State: v1beta2.StateReady}
}

func TestTakeoverPlanListsModulesAndObstacles(t *testing.T) {
	keda := manifestOf("one", "keda", "1.7.0")
	inState := func(state v1beta2.State) func(*v1beta2.Manifest) {
		return func(m *v1beta2.Manifest) { m.Status.State = state }
	}
	windowed := kymaNamed("one")
	windowed.Annotations = map[string]string{
		v1beta2.AnnotationMaintenanceWindows: `[{"begin":"2099-01-03T21:00:00Z","end":"2099-01-04T00:00:00Z"}]`,
	}
	namedByStatus := reportedAs("1.7.0")
	namedByStatus.Manifest = &v1beta2.TrackingObject{PartialMeta: v1beta2.PartialMeta{Name: "one-keda"}}
	gone := kymaNamed("one")
	gone.DeletionTimestamp = new(metav1.Now())
	taken := kymaNamed("older")
	taken.Labels[v1beta2.LabelRuntimeID] = "one"
	taken.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
	later := kymaNamed("one")
	later.CreationTimestamp = metav1.NewTime(now)
	started := kymaNamed("one")
	started.Labels[v1beta2.LabelTakeover] = v1beta2.TakeoverActive
	started.Status.Runtime = &v1beta2.RuntimeStatus{Takeover: recordModules(started, []v1beta2.Manifest{keda})}
	ours := kymaNamed("one")
	ours.Status.Runtime = &v1beta2.RuntimeStatus{
		Published: &v1beta2.PublishedBundle{Versions: map[string]string{"keda": "1.7.0"}},
	}
	givenBack := ours.DeepCopy()
	givenBack.Status.Runtime.Takeover = &v1beta2.TakeoverStatus{Published: string(bundle.TakeoverRelease)}
	for name, c := range map[string]struct {
		kyma      *v1beta2.Kyma
		others    []v1beta2.Kyma
		manifests []v1beta2.Manifest
		phase     string
		module    string // "name installed -> then: note"
		obstacle  string
	}{
		"channel with a newer version than installed": {
			kyma: kymaNamed("one"), manifests: []v1beta2.Manifest{keda}, phase: "none", module: "keda 1.7.0 -> 1.8.0: ",
		},
		"channel with an older version than installed": {kyma: kymaNamed("one"),
			manifests: []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0", func(m *v1beta2.Manifest) {
				m.Labels[v1beta2.LabelChannel] = "slow"
			})}, phase: "none",
			module: `keda 1.7.0 -> 1.7.0: module keda stays at version 1.7.0: channel "slow" has 1.6.0, which is older`},
		"upgrade waits for a maintenance window": {kyma: windowed, manifests: []v1beta2.Manifest{keda}, phase: "none",
			module: "keda 1.7.0 -> 1.8.0: the upgrade to version 1.8.0 requires downtime and waits for the " +
				"maintenance window from 2099-01-03T21:00:00Z to 2099-01-04T00:00:00Z"},
		"installed version is not in the catalog": {kyma: kymaNamed("one"),
			manifests: []v1beta2.Manifest{manifestOf("one", "keda", "1.7.5")}, phase: "none",
			module: `keda 1.7.5 -> 1.8.0: is not adopted until the catalog has version 1.7.5: module keda: version 1.7.5 in channel "regular" has no ModuleTemplate: add keda-1.7.5`},
		"Manifest is progressing": {kyma: kymaNamed("one"),
			manifests: []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0", inState(v1beta2.StateProcessing))},
			phase:     "none",
			module:    "keda 1.7.0 -> 1.8.0: ", obstacle: "Manifest one-keda is Processing: wait"},
		"module is being upgraded": {
			kyma: kymaNamed("one", reportedAs("1.6.0")), manifests: []v1beta2.Manifest{keda}, phase: "none",
			module: "keda 1.7.0 -> 1.8.0: ", obstacle: "is being upgraded from 1.6.0 to 1.7.0"},
		"Manifest is being deleted": {kyma: kymaNamed("one"),
			manifests: []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0", deleted)}, phase: "none",
			module: "keda 1.7.0 -> 1.8.0: ", obstacle: "Manifest one-keda is being deleted"},
		"Manifest without a module name": {kyma: kymaNamed("one"),
			manifests: []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0", func(m *v1beta2.Manifest) {
				delete(m.Labels, v1beta2.LabelModuleName)
			})}, phase: "none", obstacle: "Manifest one-keda does not name its module"},
		"Manifest without a module name that the status names": {kyma: kymaNamed("one", namedByStatus),
			manifests: []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0", func(m *v1beta2.Manifest) {
				delete(m.Labels, v1beta2.LabelModuleName)
			})}, phase: "none", module: "keda 1.7.0 -> 1.8.0: ", obstacle: "Manifest one-keda does not name its module"},
		"Kyma is being deleted": {
			kyma: gone, manifests: []v1beta2.Manifest{keda}, phase: "none", module: "keda 1.7.0 -> : ",
			obstacle: "the Kyma is being deleted",
		},
		"two Kymas have the same runtime ID": {
			kyma: later, others: []v1beta2.Kyma{*taken}, manifests: []v1beta2.Manifest{keda}, phase: "none",
			obstacle: "several Kymas have runtime ID one, and no operator has assigned the runtime", module: "keda 1.7.0 -> : ",
		},
		"Kyma is already managed by the publisher": {
			kyma: ours, phase: "none", obstacle: "this publisher already manages the runtime",
		},
		"Kyma was returned to lifecycle-manager": {
			kyma: givenBack, manifests: []v1beta2.Manifest{keda}, phase: "none", module: "keda 1.7.0 -> 1.8.0: ",
		},
		"Manifest without a version": {
			kyma: kymaNamed("one"), manifests: []v1beta2.Manifest{manifestOf("one", "keda", "")}, phase: "none",
			obstacle: "Manifest one-keda and the Kyma's status do not name the version",
		},
		"takeover is started": {kyma: started, phase: "adopt", module: "keda 1.7.0 -> 1.8.0: "},
		"takeover is started, Manifest is progressing": {
			kyma:      started,
			manifests: []v1beta2.Manifest{manifestOf("one", "keda", "1.8.0", inState(v1beta2.StateProcessing))},
			phase:     "adopt", module: "keda 1.7.0 -> 1.8.0: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := Landscape{
				Fleet:     plan.Fleet{Kymas: append([]v1beta2.Kyma{*c.kyma}, c.others...), Catalog: offering(t)},
				Manifests: c.manifests,
			}
			got := New(l, l.Kymas[:1], now)[0]
			if got.Phase != c.phase || got.Runtime != "one" {
				t.Errorf("got phase %q of runtime %s, want %q of runtime one", got.Phase, got.Runtime, c.phase)
			}
			module := ""
			for _, m := range got.Modules {
				module += m.Name + " " + m.Installed + " -> " + m.Then + ": " + m.Note
			}
			if module != c.module {
				t.Errorf("got modules %q\nwant %q", module, c.module)
			}
			if all := strings.Join(got.Obstacles, "; "); (all == "") != (c.obstacle == "") ||
				!strings.Contains(all, c.obstacle) {
				t.Errorf("got obstacles %q, want %q", all, c.obstacle)
			}
		})
	}
}

func TestPlanListsObjectsRemovedByTakeoverFinish(t *testing.T) {
	kyma := kymaNamed("one")
	kyma.Finalizers = []string{v1beta2.FinalizerKyma, v1beta2.LifecycleManagerFinalizerPurge}
	kyma.Status.Conditions = []metav1.Condition{{Type: v1beta2.ConditionModules}, {Type: "CRDsSync"}}
	l := Landscape{
		Fleet:     plan.Fleet{Kymas: []v1beta2.Kyma{*kyma}, Catalog: offering(t)},
		Manifests: []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0")},
	}
	want := []string{
		"Manifest kcp-system/one-keda",
		"finalizer operator.kyma-project.io/purge-finalizer",
		"condition CRDsSync",
	}
	if got := New(l, l.Kymas, now)[0].Removes; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTakeoverCanBeFinishedAfterAllModulesAreAdopted(t *testing.T) {
	ready := func(changes ...func(*v1beta2.Kyma)) *v1beta2.Kyma {
		kyma := kymaNamed("one")
		kyma.Labels[v1beta2.LabelTakeover] = v1beta2.TakeoverActive
		kyma.Status.State = v1beta2.StateReady
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{
			Published: &v1beta2.PublishedBundle{
				Digest:   "newest",
				Sequence: 7,
			}, Observed: &v1beta2.ObservedBundle{Digest: "newest"},
			Requested: &v1beta2.RequestedSpec{
				Spec: v1beta2.KymaSpec{Modules: []v1beta2.Module{{Name: "keda", Managed: true}}},
			},
			Takeover: &v1beta2.TakeoverStatus{
				Published: "adopt",
				Modules:   []v1beta2.InheritedModule{{Name: "keda", Version: "1.7.0", Adopted: true}},
			},
		}
		for _, change := range changes {
			change(kyma)
		}
		return kyma
	}
	for name, c := range map[string]struct {
		change func(*v1beta2.Kyma)
		want   string // empty if the takeover can be finished
	}{
		"runtime that adopted all modules": {func(*v1beta2.Kyma) {}, ""},
		"Kyma without a published bundle": {
			func(k *v1beta2.Kyma) {
				k.Status.Runtime = nil
			}, "check that the publisher is running and that its --watch-label-selector selects the Kyma",
		},
		"runtime without a report": {func(k *v1beta2.Kyma) { k.Status.Runtime.Observed = nil }, "has not reported yet"},
		"runtime with a module that is not adopted": {
			func(k *v1beta2.Kyma) { k.Status.Runtime.Takeover.Modules[0].Adopted = false }, "has not adopted keda yet",
		},
		"runtime with an unmanaged module that is not adopted": {func(k *v1beta2.Kyma) {
			k.Status.Runtime.Takeover.Modules[0].Adopted, k.Status.Runtime.Requested.Spec.Modules[0].Managed = false,
				false
		}, ""},
		"runtime whose request for an unmanaged module has no effect": {func(k *v1beta2.Kyma) {
			k.Labels[v1beta2.LabelSync] = v1beta2.False
			k.Status.Runtime.Takeover.Modules[0].Adopted, k.Status.Runtime.Requested.Spec.Modules[0].Managed = false,
				false
		}, "has not adopted keda yet"},
		"runtime that has not reported the latest bundle": {
			func(k *v1beta2.Kyma) { k.Status.Runtime.Published.Digest = "newer" }, "has not reported bundle 7 yet",
		},
		"Kyma in state Warning": {
			func(k *v1beta2.Kyma) { k.Status.State = v1beta2.StateWarning }, "see `kcp-publisher why one`",
		},
		"runtime that reports why a module is not adopted": {func(k *v1beta2.Kyma) {
			k.Status.Runtime.Takeover.Modules[0].Adopted, k.Status.Runtime.Takeover.Message = false, "forbidden"
		}, "keda yet: forbidden"},
		"Kyma without a state": {func(k *v1beta2.Kyma) { k.Status.State = "" }, `the state of the Kyma is ""`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := UnreadyReason(ready(c.change)); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRuntimeWithoutReportsIsReturnedImmediately(t *testing.T) {
	for name, c := range map[string]struct {
		status *v1beta2.RuntimeStatus
		want   bool
	}{
		"Kyma without a published bundle": {nil, true},
		"Kyma with a published bundle without modules": {
			&v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{}}, true,
		},
		"Kyma with published and reported modules": {
			&v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{Versions: map[string]string{"keda": "1.7.0"}},
				Requested: &v1beta2.RequestedSpec{}, Observed: &v1beta2.ObservedBundle{}}, false,
		},
		"Kyma with published modules that are not reported": {
			&v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{Versions: map[string]string{"keda": "1.7.0"}}},
			false,
		},
		"Kyma with a published release and no report": {&v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{
			Versions: map[string]string{"keda": "1.7.0"},
		},
			Takeover: &v1beta2.TakeoverStatus{Published: string(bundle.TakeoverRelease)}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			kyma := kymaNamed("one")
			kyma.Status.Runtime = c.status
			if got := IsUntouched(kyma); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}
