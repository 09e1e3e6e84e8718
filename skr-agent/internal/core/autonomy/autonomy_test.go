package autonomy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

func manifest(module, channel, version string) bundle.Manifest {
	m := bundle.Manifest{Name: module, Module: module, Channel: channel, Version: version}
	m.Spec.Version, m.Spec.CustomResourcePolicy = version, v1beta2.PolicyCreateAndDelete
	m.Spec.Resource = &unstructured.Unstructured{Object: map[string]any{"kind": "X"}}
	return m
}

// lastBundle returns a bundle that installs module keda and the mandatory module watcher. It offers keda, nats, and a
// module named "gone".
func lastBundle() *bundle.Bundle {
	b := &bundle.Bundle{}
	b.Statement.Predicate.KymaGeneration = 1
	b.Statement.Predicate.Removals = []string{"gone"}
	b.State.Settings.Autonomy = bundle.AutonomyCatalog
	watcher := manifest("watcher", "", "1.0.0")
	watcher.Labels = map[string]string{v1beta2.LabelMandatoryModule: v1beta2.True}
	b.State.Manifests = []bundle.Manifest{manifest("keda", "regular", "1.7.0"), watcher}
	b.State.Offers = []bundle.Manifest{
		manifest("keda", "fast", "1.8.0"), manifest("keda", "regular", "1.7.0"), manifest("keda", "old", "1.6.0"),
		manifest("nats", "fast", "2.1.0"), manifest("nats", "regular", "2.0.0"), manifest("gone", "regular", "3.0.0"),
	}
	return b
}

func asking(modules ...v1beta2.Module) *v1beta2.Kyma {
	return &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{Generation: 2},
		Spec:       v1beta2.KymaSpec{Channel: "regular", Modules: modules},
	}
}

func module(name, channel string) v1beta2.Module {
	return v1beta2.Module{Name: name, Channel: channel, Managed: true}
}

func textOf(f Result) string {
	var parts []string
	for _, m := range f.State.Manifests {
		text := m.Module + "@" + m.Version
		if m.Unmanaged {
			text += " unmanaged"
		}
		if m.Spec.Resource == nil {
			text += " without CR"
		}
		parts = append(parts, text)
	}
	for _, p := range f.State.Problems {
		parts = append(parts, "! "+p.Message)
	}
	parts = append(parts, fmt.Sprint("removes ", f.Statement.Predicate.Removals),
		fmt.Sprint("decided ", f.SelectedModules))
	return strings.Join(parts, "; ")
}

const mandatoryRemark = "module watcher is mandatory and installed without a request: remove it from spec.modules, " +
	"which has no effect on it"

// A user tries to change mandatory modules in three ways: with a Manifest that is not in the bundle, with a module
// whose Manifest has the same name, and with the default CR policy.
func TestRuntimeKymaCannotChangeMandatoryModules(t *testing.T) {
	installed := v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Name: "guard", Labels: map[string]string{
		v1beta2.LabelModuleName: "guard", v1beta2.LabelMandatoryModule: v1beta2.True,
	}}}
	b := lastBundle()
	b.State.Offers = append(b.State.Offers, manifest("guard", "regular", "1.0.0"))
	alias := manifest("team/watcher", "regular", "9.0.0")
	alias.Name = "watcher"
	b.State.Offers = append(b.State.Offers, alias)
	kyma := asking(module("keda", ""), v1beta2.Module{Name: "guard"}, module("team/watcher", ""))
	want := "keda@1.7.0; watcher@1.0.0; ! " + strings.ReplaceAll(mandatoryRemark, "watcher", "guard") +
		"; ! " + strings.ReplaceAll(mandatoryRemark, "watcher", "team/watcher") + "; removes [gone]; decided []"
	if got := textOf(Apply(b, kyma, []v1beta2.Manifest{installed})); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	answered := asking(v1beta2.Module{Name: "watcher", Managed: true, CustomResourcePolicy: v1beta2.PolicyIgnore})
	answered.Generation = 1
	newer := manifest("watcher", "regular", "1.1.0")
	newer.Labels = b.State.Manifests[1].Labels
	b.State.Offers = append(b.State.Offers, newer)
	has := v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Name: "watcher", Labels: map[string]string{
		v1beta2.LabelModuleName: "watcher", v1beta2.LabelMandatoryModule: v1beta2.True,
	}}}
	has.Spec.Version = "1.1.0"
	if got := textOf(Apply(b, answered, []v1beta2.Manifest{has})); strings.Contains(got, "without CR") ||
		!strings.Contains(got, "watcher@1.1.0") {
		t.Errorf("got\n%s\nwant watcher 1.1.0 with its default CR", got)
	}
}

func TestRequestedModuleStaysIfItIsNoLongerMandatory(t *testing.T) {
	has := installed("keda@1.7.0")
	has[0].Labels = map[string]string{v1beta2.LabelMandatoryModule: v1beta2.True}
	got := textOf(Apply(lastBundle(), asking(module("keda", ""), module("nats", "")), has))
	if want := "keda@1.7.0; nats@2.0.0; watcher@1.0.0; removes [gone]; decided [nats]"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRuntimeAppliesRequestOfItsKyma(t *testing.T) {
	keda := module("keda", "")
	unmanaged, pinned, ignored, unknown := keda, module("nats", ""), module("nats", "fast"), module("nats", "")
	unmanaged.Managed = false
	pinned.Version, unknown.Version, ignored.CustomResourcePolicy = "2.1.0", "9.9.9", v1beta2.PolicyIgnore
	for name, c := range map[string]struct {
		modules []v1beta2.Module
		want    string
	}{
		"unchanged request": {
			[]v1beta2.Module{keda}, "keda@1.7.0; watcher@1.0.0; removes [gone]; decided []",
		},
		"module added": {
			[]v1beta2.Module{keda, module("nats", "")},
			"keda@1.7.0; nats@2.0.0; watcher@1.0.0; removes [gone]; decided [nats]",
		},
		"newer channel": {
			[]v1beta2.Module{module("keda", "fast")}, "keda@1.8.0; watcher@1.0.0; removes [gone]; decided [keda]",
		},
		"older channel": {
			[]v1beta2.Module{module("keda", "old")},
			`keda@1.7.0; watcher@1.0.0; ! module keda stays at version 1.7.0: channel "old" has 1.6.0, which is older; removes [gone]; decided []`,
		},
		"channel without an offer": {
			[]v1beta2.Module{module("keda", "slow")},
			`keda@1.7.0; watcher@1.0.0; ! module keda: the last accepted bundle has no offer for channel "slow"; waiting for the control plane; removes [gone]; decided []`,
		},
		"added module without an offer": {
			[]v1beta2.Module{keda, module("moon", "")},
			`keda@1.7.0; watcher@1.0.0; ! module moon: the last accepted bundle has no offer for channel "regular"; waiting for the control plane; removes [gone]; decided []`,
		},
		"module removed": {nil, "watcher@1.0.0; removes [gone keda]; decided [keda]"},
		"module that the bundle removes is requested again": {
			[]v1beta2.Module{keda, module("gone", "")},
			"gone@3.0.0; keda@1.7.0; watcher@1.0.0; removes []; decided [gone]",
		},
		"module unmanaged": {
			[]v1beta2.Module{unmanaged}, "keda@1.7.0 unmanaged; watcher@1.0.0; removes [gone]; decided [keda]",
		},
		"module unmanaged and not installed": {
			[]v1beta2.Module{keda, {Name: "nats"}}, "keda@1.7.0; watcher@1.0.0; removes [gone]; decided []",
		},
		"module pinned to a version": {
			[]v1beta2.Module{keda, pinned}, "keda@1.7.0; nats@2.1.0; watcher@1.0.0; removes [gone]; decided [nats]",
		},
		"module pinned to a version without an offer": {
			[]v1beta2.Module{keda, unknown},
			"keda@1.7.0; watcher@1.0.0; ! module nats: the last accepted bundle has no offer for version 9.9.9; " +
				"waiting for the control plane; removes [gone]; decided []",
		},
		"mandatory module unmanaged": {
			[]v1beta2.Module{keda, {Name: "watcher"}}, "keda@1.7.0; watcher@1.0.0; ! " + mandatoryRemark +
				"; removes [gone]; decided []",
		},
		"mandatory module with another policy": {
			[]v1beta2.Module{keda, {Name: "watcher", Managed: true, CustomResourcePolicy: v1beta2.PolicyIgnore}},
			"keda@1.7.0; watcher@1.0.0; ! " + mandatoryRemark + "; removes [gone]; decided []",
		},
		"mandatory module with a channel": {
			[]v1beta2.Module{keda, module("watcher", "fast")}, "keda@1.7.0; watcher@1.0.0; ! " + mandatoryRemark +
				"; removes [gone]; decided []",
		},
		"module added without its default CR": {
			[]v1beta2.Module{keda, ignored},
			"keda@1.7.0; nats@2.1.0 without CR; watcher@1.0.0; removes [gone]; decided [nats]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := lastBundle()
			if got := textOf(Apply(b, asking(c.modules...), nil)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if !slices.EqualFunc(b.State.Manifests, lastBundle().State.Manifests,
				func(x, y bundle.Manifest) bool { return x.Version == y.Version && x.Unmanaged == y.Unmanaged }) ||
				!slices.Equal(b.Statement.Predicate.Removals, lastBundle().Statement.Predicate.Removals) {
				t.Error("Follow must not change its argument")
			}
		})
	}
}

func TestBundleIsUnchangedWithoutAutonomy(t *testing.T) {
	wish := asking(module("nats", ""))
	answered := asking(module("nats", ""))
	answered.Generation = 1
	deleted := asking()
	deletedForReal := metav1.Now()
	deleted.DeletionTimestamp = &deletedForReal
	off, farewell, taken := lastBundle(), lastBundle(), lastBundle()
	taken.State.Takeover = bundle.TakeoverAdopt
	off.State.Settings.Autonomy = ""
	farewell.Statement.Predicate.Deleting = true
	for name, c := range map[string]struct {
		b    *bundle.Bundle
		kyma *v1beta2.Kyma
	}{
		"no autonomy in the settings": {off, wish}, "bundle includes the request": {lastBundle(), answered},
		"no Kyma": {lastBundle(), nil}, "Kyma being deleted": {lastBundle(), deleted},
		"bundle that deletes the runtime's modules": {farewell, wish},
		"bundle for a takeover":                     {taken, wish}, "no bundle": {nil, wish},
	} {
		if got := Apply(c.b, c.kyma, nil); got.Bundle != c.b || len(got.SelectedModules) != 0 {
			t.Errorf("%s: got %+v, want the unchanged bundle", name, got)
		}
	}
}

// installed returns a Manifest for each argument, which has the format "module@version".
func installed(all ...string) (manifests []v1beta2.Manifest) {
	for _, one := range all {
		name, version, _ := strings.Cut(one, "@")
		manifests = append(manifests, v1beta2.Manifest{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta2.ManifestSpec{Version: version},
		})
	}
	return manifests
}

func TestModuleChoicesNeverDowngrade(t *testing.T) {
	answered := v1beta2.KymaSpec{Channel: "regular", Modules: []v1beta2.Module{module("keda", "")}}
	removing := installed("keda@1.8.0")
	removing[0].DeletionTimestamp = new(metav1.Now())
	ignoring := module("keda", "")
	ignoring.CustomResourcePolicy = v1beta2.PolicyIgnore
	unmanaged := module("keda", "")
	unmanaged.Managed = false
	const stays = `! module keda stays at version 1.8.0: `
	for name, c := range map[string]struct {
		change    func(*bundle.Bundle)
		modules   []v1beta2.Module
		installed []v1beta2.Manifest
		want      string
	}{
		"Kyma requests the bundle's versions again": {nil, answered.Modules, installed("keda@1.8.0"),
			"keda@1.8.0; watcher@1.0.0; " + stays +
				"the last accepted bundle has 1.7.0, which is older; removes [gone]; decided [keda]"},
		"channel with an older version requested": {nil, []v1beta2.Module{module("keda", "old")}, installed("keda@1.8.0"),
			"keda@1.8.0; watcher@1.0.0; " + stays +
				`channel "old" has 1.6.0, which is older; removes [gone]; decided [keda]`},
		"channel without an offer requested": {nil, []v1beta2.Module{module("keda", "slow")}, installed("keda@1.8.0"),
			`keda@1.8.0; watcher@1.0.0; ! module keda: the last accepted bundle has no offer for channel "slow"; waiting for the control plane; removes [gone]; decided [keda]`},
		"Kyma requests the bundle's versions again, without the default CR": {nil, []v1beta2.Module{ignoring},
			installed("keda@1.8.0"), "keda@1.8.0 without CR; watcher@1.0.0; " + stays +
				`channel "regular" has 1.7.0, which is older; removes [gone]; decided [keda]`},
		"module unmanaged in its newer version": {nil, []v1beta2.Module{unmanaged}, installed("keda@1.8.0"),
			"keda@1.8.0 unmanaged; watcher@1.0.0; removes [gone]; decided [keda]"},
		"module that is not in the bundle": {nil, []v1beta2.Module{module("keda", ""), module("nats", "")},
			installed("keda@1.7.0", "nats@2.1.0"),
			`keda@1.7.0; nats@2.1.0; watcher@1.0.0; ! module nats stays at version 2.1.0: channel "regular" has 2.0.0, which is older; removes [gone]; decided [nats]`},
		"module that is not in the bundle, in a version without an offer": {nil,
			[]v1beta2.Module{module("keda", ""), module("nats", "")}, installed("nats@2.2.0"),
			`keda@1.7.0; watcher@1.0.0; ! module nats stays at version 2.2.0: channel "regular" has 2.0.0, which is older; removes [gone]; decided []`},
		"installed version without an offer is ignored": {nil, answered.Modules, installed("keda@9.9.9"),
			"keda@1.7.0; watcher@1.0.0; removes [gone]; decided []"},
		"module being deleted can return in any version": {nil, answered.Modules, removing,
			"keda@1.7.0; watcher@1.0.0; removes [gone]; decided []"},
		"rollback in the statement": {func(b *bundle.Bundle) {
			b.Statement.Predicate.Rollback = []bundle.Rollback{{Module: "keda", From: "1.8.0", To: "1.7.0"}}
		}, answered.Modules, installed("keda@1.8.0"), "keda@1.7.0; watcher@1.0.0; removes [gone]; decided []"},
		"chosen module not requested anymore": {nil, answered.Modules,
			installed("keda@1.7.0", "nats@2.0.0", "watcher@1.0.0"),
			"keda@1.7.0; watcher@1.0.0; removes [gone nats]; decided [nats]"},
		"no module requested anymore": {nil, nil, installed("keda@1.7.0", "nats@2.0.0", "watcher@1.0.0"),
			"watcher@1.0.0; removes [gone keda nats]; decided [keda nats]"},
		"module without an offer stays": {nil, answered.Modules,
			installed("keda@1.7.0", "stray@1.0.0"),
			"keda@1.7.0; watcher@1.0.0; removes [gone]; decided []"},
	} {
		t.Run(name, func(t *testing.T) {
			b := lastBundle()
			b.Statement.Predicate.KymaSpec = bundle.RequestDigest(answered)
			if c.change != nil {
				c.change(b)
			}
			kyma := asking(c.modules...)
			if got := textOf(Apply(b, kyma, c.installed)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if slices.Contains(b.Statement.Predicate.Removals, "nats") || b.State.Manifests[0].Version != "1.7.0" ||
				len(b.State.Problems) != 0 {
				t.Error("Follow must not change its argument")
			}
		})
	}
}

func TestMissingKymaRemovesAndDowngradesNothing(t *testing.T) {
	want := "keda@1.8.0; watcher@1.0.0; ! module keda stays at version 1.8.0: the last accepted bundle has 1.7.0, " +
		"which is older; removes [gone]; decided [keda]"
	if got := textOf(Apply(lastBundle(), nil, installed("keda@1.8.0", "nats@2.0.0"))); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// While the control plane was unreachable, the runtime's admin requested nats and removed keda. The last bundle
// removes nats and contains keda.
func TestUnknownRequestNeitherAddsNorRemovesModules(t *testing.T) {
	terminating := asking()
	terminating.DeletionTimestamp = new(metav1.Now())
	b := lastBundle()
	b.Statement.Predicate.Removals = []string{"gone", "nats"}
	for name, kyma := range map[string]*v1beta2.Kyma{"missing Kyma": nil, "Kyma being deleted": terminating} {
		want := "watcher@1.0.0; removes [gone]; decided []"
		if got := textOf(Apply(b, kyma, installed("nats@2.0.0"))); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		removing := installed("nats@2.0.0")
		removing[0].UID = "1"
		if err := (record.Store{}).Set(&removing[0], record.Record{Removal: "1"}); err != nil {
			t.Fatal(err)
		}
		want = "watcher@1.0.0; removes [gone nats]; decided []"
		if got := textOf(Apply(b, kyma, removing)); got != want {
			t.Errorf("%s, removal has begun: got\n%s\nwant\n%s", name, got, want)
		}
		want = "keda@1.7.0; watcher@1.0.0; removes [gone nats]; decided []"
		if got := textOf(Apply(b, kyma, nil)); got != want {
			t.Errorf("%s, no modules: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestRequestsAreComparedByContent(t *testing.T) {
	b := lastBundle()
	b.Statement.Predicate.KymaSpec = bundle.RequestDigest(asking(module("keda", "")).Spec)
	replaced := asking(module("nats", ""))
	replaced.Generation = 1 // the generation in the bundle
	if got, want := textOf(Apply(b, replaced, nil)),
		"nats@2.0.0; watcher@1.0.0; removes [gone keda]; decided [keda nats]"; got != want {
		t.Errorf("got for a new Kyma with the same generation\n%s\nwant\n%s", got, want)
	}
	if got := Apply(b, asking(module("keda", "")), nil); got.Bundle != b {
		t.Error("the same request in another generation must not change the bundle")
	}
}
