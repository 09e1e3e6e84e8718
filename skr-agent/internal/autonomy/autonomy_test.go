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
)

func manifest(module, channel, version string) bundle.Manifest {
	m := bundle.Manifest{Name: module, Module: module, Channel: channel, Version: version}
	m.Spec.Version, m.Spec.CustomResourcePolicy = version, v1beta2.PolicyCreateAndDelete
	m.Spec.Resource = &unstructured.Unstructured{Object: map[string]any{"kind": "X"}}
	return m
}

// last is the last bundle: keda is installed at regular, a mandatory module too; nats can be had as well.
func last() *bundle.Bundle {
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
	return &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: v1beta2.KymaSpec{Channel: "regular", Modules: modules}}
}

func module(name, channel string) v1beta2.Module {
	return v1beta2.Module{Name: name, Channel: channel, Managed: true}
}

func said(f Followed) string {
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
	parts = append(parts, fmt.Sprint("removes ", f.Statement.Predicate.Removals), fmt.Sprint("decided ", f.Decided))
	return strings.Join(parts, "; ")
}

func TestARuntimeFollowsItsOwnKyma(t *testing.T) {
	keda := module("keda", "")
	unmanaged, pinned, ignored, unknown := keda, module("nats", ""), module("nats", "fast"), module("nats", "")
	unmanaged.Managed = false
	pinned.Version, unknown.Version, ignored.CustomResourcePolicy = "2.1.0", "9.9.9", v1beta2.PolicyIgnore
	for name, c := range map[string]struct {
		modules []v1beta2.Module
		want    string
	}{
		"the same wish":           {[]v1beta2.Module{keda}, "keda@1.7.0; watcher@1.0.0; removes [gone]; decided []"},
		"another module":          {[]v1beta2.Module{keda, module("nats", "")}, "keda@1.7.0; nats@2.0.0; watcher@1.0.0; removes [gone]; decided [nats]"},
		"another channel":         {[]v1beta2.Module{module("keda", "fast")}, "keda@1.8.0; watcher@1.0.0; removes [gone]; decided [keda]"},
		"an older channel":        {[]v1beta2.Module{module("keda", "old")}, `keda@1.7.0; watcher@1.0.0; ! module keda: stays at version 1.7.0: at channel "old" there is 1.6.0, which is older; removes [gone]; decided []`},
		"a channel without it":    {[]v1beta2.Module{module("keda", "slow")}, `keda@1.7.0; watcher@1.0.0; ! module keda: the last bundle offers none at channel "slow": waiting for the control plane; removes [gone]; decided []`},
		"a module nobody offers":  {[]v1beta2.Module{keda, module("moon", "")}, `keda@1.7.0; watcher@1.0.0; ! module moon: the last bundle offers none at channel "regular": waiting for the control plane; removes [gone]; decided []`},
		"fewer modules":           {nil, "watcher@1.0.0; removes [gone keda]; decided [keda]"},
		"a removed one after all": {[]v1beta2.Module{keda, module("gone", "")}, "gone@3.0.0; keda@1.7.0; watcher@1.0.0; removes []; decided [gone]"},
		"unmanaged":               {[]v1beta2.Module{unmanaged}, "keda@1.7.0 unmanaged; watcher@1.0.0; removes [gone]; decided [keda]"},
		"unmanaged and not there": {[]v1beta2.Module{keda, {Name: "nats"}}, "keda@1.7.0; watcher@1.0.0; removes [gone]; decided []"},
		"one version":             {[]v1beta2.Module{keda, pinned}, "keda@1.7.0; nats@2.1.0; watcher@1.0.0; removes [gone]; decided [nats]"},
		"a version nobody offers": {[]v1beta2.Module{keda, unknown}, "keda@1.7.0; watcher@1.0.0; ! module nats: the last bundle offers none in version 9.9.9: waiting for the control plane; removes [gone]; decided []"},
		"without its default CR":  {[]v1beta2.Module{keda, ignored}, "keda@1.7.0; nats@2.1.0 without CR; watcher@1.0.0; removes [gone]; decided [nats]"},
	} {
		t.Run(name, func(t *testing.T) {
			b := last()
			if got := said(Follow(b, asking(c.modules...))); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if !slices.EqualFunc(b.State.Manifests, last().State.Manifests, func(x, y bundle.Manifest) bool { return x.Version == y.Version && x.Unmanaged == y.Unmanaged }) ||
				!slices.Equal(b.Statement.Predicate.Removals, last().Statement.Predicate.Removals) {
				t.Error("the bundle itself was changed")
			}
		})
	}
}

func TestWithoutLeaveTheBundleIsFollowedAsItIs(t *testing.T) {
	wish := asking(module("nats", ""))
	answered := asking(module("nats", ""))
	answered.Generation = 1
	deleted := asking()
	deletedForReal := metav1.Now()
	deleted.DeletionTimestamp = &deletedForReal
	off, farewell := last(), last()
	off.State.Settings.Autonomy = ""
	farewell.Statement.Predicate.Deleting = true
	for name, c := range map[string]struct {
		b    *bundle.Bundle
		kyma *v1beta2.Kyma
	}{
		"no autonomy": {off, wish}, "the control plane has answered": {last(), answered}, "no Kyma": {last(), nil},
		"a Kyma that is being deleted": {last(), deleted}, "the last bundle": {farewell, wish}, "no bundle": {nil, wish},
	} {
		if got := Follow(c.b, c.kyma); got.Bundle != c.b || len(got.Decided) != 0 {
			t.Errorf("%s: follows %+v", name, got)
		}
	}
}
