package provenance

import (
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

var (
	layer  = digest.FromString("keda 1.8.0")
	issued = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	config = Object{Kind: "ConfigMap", Namespace: "kyma-system", Name: "keda-settings", OwnedBy: "kyma-system/keda"}
)

func specOf(version string, from digest.Digest) v1beta2.ManifestSpec {
	return v1beta2.ManifestSpec{
		Version: version, Install: v1beta2.InstallInfo{
			Name: "raw-manifest", Source: runtime.RawExtension{
				Raw: []byte(`{"repo":"registry.example/keda","ref":"` + from.String() + `"}`),
			},
		},
	}
}

// manifest returns an installed Manifest with the given objects in its inventory.
func manifest(name string, inventory ...Object) v1beta2.Manifest {
	m := v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kyma-system", Name: name, Generation: 2},
		Spec:       specOf("1.8.0", layer),
	}
	m.Status = v1beta2.ManifestStatus{
		State:      v1beta2.StateReady,
		Conditions: []metav1.Condition{{Type: v1beta2.ConditionReady, ObservedGeneration: 2}},
	}
	for _, o := range inventory {
		m.Status.Synced = append(m.Status.Synced, v1beta2.Resource{
			Name: o.Name, Namespace: o.Namespace, GroupVersionKind: metav1.GroupVersionKind{
				Group: o.Group, Version: "v1", Kind: o.Kind,
			},
		})
	}
	return m
}

func inForce() bundle.Bundle {
	return bundle.Bundle{
		Verified: bundle.Verified{
			Digest: digest.FromString("bundle"), KeyThumbprint: "publisher",
			Statement: bundle.Statement{
				Predicate: bundle.Predicate{
					Audience:    bundle.Audience{Runtime: "r-17"},
					Epoch:       1,
					Sequence:    7,
					IssuedAt:    issued,
					RootVersion: 3,
				},
			},
		},
		State: bundle.DesiredState{Manifests: []bundle.Manifest{{
			Name: "keda", Module: "keda", Version: "1.8.0", Channel: "regular",
			Component: "kyma-project.io/module/keda", Spec: specOf("1.8.0", layer),
			Content: []bundle.Content{{Name: "raw-manifest", Repository: "registry.example/keda", Digest: layer}},
		}}},
	}
}

func TestObjectIsTracedToBundleAndKey(t *testing.T) {
	cr := schema.GroupVersionKind{Group: "operator.kyma-project.io", Version: "v1alpha1", Kind: "Keda"}
	withCR := manifest("keda")
	withCR.Spec.Resource = &unstructured.Unstructured{}
	withCR.Spec.Resource.SetGroupVersionKind(cr)
	withCR.Spec.Resource.SetName("default")
	marked := Object{
		Group:     cr.Group,
		Kind:      cr.Kind,
		Namespace: "kyma-system",
		Name:      "default",
		OwnedBy:   "kyma-system/keda",
	}
	processing, outdated := manifest("keda", config), manifest("keda", config)
	processing.Status.State = v1beta2.StateProcessing
	outdated.Generation = 3
	for name, c := range map[string]struct {
		object             Object
		manifests          []v1beta2.Manifest
		pending, defaultCR bool
	}{
		"object in the inventory of one Manifest": {
			config, []v1beta2.Manifest{manifest("mail"), manifest("keda", config)}, false, false,
		},
		"object without the owner annotation": {
			unmarked(config), []v1beta2.Manifest{manifest("keda", config)}, false, false,
		},
		"object in two inventories with the owner annotation": {
			config, []v1beta2.Manifest{manifest("mail", config), manifest("keda", config)}, false, false,
		},
		"object with a wrong owner annotation": {
			markedAs(config, "kyma-system/mail"), []v1beta2.Manifest{manifest("mail"), manifest("keda", config)}, false,
			false,
		},
		"Manifest from the bundle": {
			Object{Group: v1beta2.Group, Kind: "Manifest", Namespace: "kyma-system", Name: "keda"},
			[]v1beta2.Manifest{manifest("keda")}, false, false,
		},
		"object of a module in state Processing":       {config, []v1beta2.Manifest{processing}, true, false},
		"object of a Manifest with an outdated status": {config, []v1beta2.Manifest{outdated}, true, false},
		"default CR that the agent created":            {marked, []v1beta2.Manifest{withCR}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Trace(c.object, c.manifests, inForce())
			if err != nil {
				t.Fatal(err)
			}
			if got.Manifest != "kyma-system/keda" || got.Module != "keda" || got.Version != "1.8.0" ||
				got.Component != "kyma-project.io/module/keda" ||
				len(got.Content) != 1 ||
				got.Content[0].Digest != layer {
				t.Errorf("got chain %+v, want module keda 1.8.0 of Manifest kyma-system/keda", got)
			}
			b := got.Bundle
			if b.Digest != digest.FromString("bundle") || b.Runtime != "r-17" || b.Sequence != 7 ||
				b.PublisherKey != "publisher" ||
				b.RootVersion != 3 ||
				!b.IssuedAt.Equal(issued) {
				t.Errorf("got bundle %+v, want sequence 7 of runtime r-17", b)
			}
			if got.Pending != c.pending || got.DefaultCR != c.defaultCR {
				t.Errorf("got pending %t and default CR %t, want %t and %t", got.Pending, got.DefaultCR, c.pending,
					c.defaultCR)
			}
		})
	}
}

func TestIncompleteChainIsAnError(t *testing.T) {
	other := digest.FromString("something else")
	changed, older, unreadable := manifest("keda", config), manifest("keda", config), manifest("keda", config)
	changed.Spec = specOf("1.8.0", other)
	older.Spec = specOf("1.7.0", layer)
	unreadable.Spec.Install.Source.Raw = []byte("{")
	values := manifest("keda", config)
	values.Spec.Config = &v1beta2.ImageSpec{Ref: other.String()}
	withCR := manifest("keda")
	withCR.Spec.Resource = &unstructured.Unstructured{}
	withCR.Spec.Resource.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	withCR.Spec.Resource.SetName(config.Name)
	for name, c := range map[string]struct {
		object    Object
		manifests []v1beta2.Manifest
		message   string
	}{
		"object not in an inventory": {
			config, []v1beta2.Manifest{manifest("keda")}, "is not in the inventory of a Manifest",
		},
		"owner annotation without a Manifest": {config, nil, "is not in the inventory of a Manifest"},
		"object of another kind in the inventory": {
			Object{Kind: "Secret", Namespace: config.Namespace, Name: config.Name},
			[]v1beta2.Manifest{manifest("keda", config)}, "is not in the inventory of a Manifest",
		},
		"object of another group in the inventory": {
			Object{Group: "example.com", Kind: config.Kind, Namespace: config.Namespace, Name: config.Name},
			[]v1beta2.Manifest{manifest("keda", config)}, "is not in the inventory of a Manifest",
		},
		"object in two inventories without the owner annotation": {
			unmarked(config), []v1beta2.Manifest{manifest("mail", config), manifest("keda", config)},
			"kyma-system/mail and kyma-system/keda",
		},
		"Manifest not in the bundle": {
			markedAs(config, "kyma-system/own"), []v1beta2.Manifest{manifest("own", config)}, "which is not in bundle",
		},
		"Manifest with other content": {
			config, []v1beta2.Manifest{changed}, "differs from bundle",
		},
		"Manifest with a different version": {
			config, []v1beta2.Manifest{older}, `spec.version is "1.7.0"`,
		},
		"Manifest with other values": {
			config, []v1beta2.Manifest{values}, "differs from bundle",
		},
		"Manifest with an invalid source": {
			config, []v1beta2.Manifest{unreadable}, "spec.install.source",
		},
		"default CR that a user created": {
			unmarked(config), []v1beta2.Manifest{withCR}, "is not in the inventory of a Manifest",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Trace(c.object, c.manifests, inForce())
			if err == nil || !strings.Contains(err.Error(), c.message) ||
				!strings.HasPrefix(err.Error(), c.object.String()) {
				t.Errorf("got chain %+v and error %v, want an error about %s with %q", got, err, c.object, c.message)
			}
		})
	}
}

func unmarked(o Object) Object { return markedAs(o, "") }

func markedAs(o Object, by string) Object {
	o.OwnedBy = by
	return o
}
