package v1beta1

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestV1beta1KymaSurvivesRoundTrip(t *testing.T) {
	module := v1beta2.Module{Name: "keda", Channel: "fast", Managed: true}
	for name, c := range map[string]struct {
		sync *Sync
		want map[string]string // annotations in v1beta2, except AnnotationSync
	}{
		"Kyma without spec.sync": {nil, nil},
		"Kyma with disabled spec.sync": {
			&Sync{NoModuleCopy: true, ModuleCatalog: true, Strategy: "secret", Namespace: "elsewhere"},
			map[string]string{},
		},
		"copy of the modules": {
			&Sync{Enabled: true, ModuleCatalog: true, Strategy: "local-secret"}, map[string]string{},
		},
		"no copy of the modules, which is the default": {
			&Sync{Enabled: true, NoModuleCopy: true, ModuleCatalog: true, Namespace: "kyma-system"},
			map[string]string{v1beta2.AnnotationNoModuleCopy: "true"},
		},
		"no catalog": {
			&Sync{Enabled: true}, map[string]string{v1beta2.AnnotationSyncCatalog: "false"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := &Kyma{
				ObjectMeta: metav1.ObjectMeta{
					Name:        "one",
					Labels:      map[string]string{"a": "b"},
					Annotations: map[string]string{"mine": "stays"},
				},
				Spec: KymaSpec{
					Channel:                "regular",
					SkipMaintenanceWindows: true,
					Modules:                []v1beta2.Module{module},
					Sync:                   c.sync,
				},
				Status: v1beta2.KymaStatus{State: v1beta2.StateReady, ActiveChannel: "regular"},
			}
			hub, after := &v1beta2.Kyma{}, &Kyma{}
			if err := KymaToHub(t.Context(), before, hub); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(hub.Spec,
				v1beta2.KymaSpec{Channel: "regular", SkipMaintenanceWindows: true,
					Modules: []v1beta2.Module{module}}) ||
				!reflect.DeepEqual(hub.Status, before.Status) ||
				hub.Annotations["mine"] != "stays" {
				t.Errorf("got v1beta2 Kyma %+v, want the fields of the v1beta1 Kyma", hub)
			}
			for name, value := range c.want {
				if hub.Annotations[name] != value {
					t.Errorf("annotation %s is %q, want %q", name, hub.Annotations[name], value)
				}
			}
			if extra := len(hub.Annotations) - 1 - len(c.want); c.want != nil && extra != 1 || c.want == nil &&
				extra != 0 {
				t.Errorf("got annotations %v, want %v and AnnotationSync only", hub.Annotations, c.want)
			}
			if err := KymaFromHub(t.Context(), hub, after); err != nil || !reflect.DeepEqual(after, before) {
				t.Errorf("after a round trip (error %v), got\n%+v\nwant\n%+v", err, after, before)
			}
		})
	}
}

func TestUnsupportedSyncFieldsAreRefused(t *testing.T) {
	err := KymaToHub(t.Context(), &Kyma{Spec: KymaSpec{Sync: &Sync{Enabled: true, Namespace: "elsewhere"}}},
		&v1beta2.Kyma{})
	if err == nil ||
		!strings.Contains(err.Error(),
			`spec.sync.namespace: "elsewhere" is not supported: the runtime's Kyma is always in kyma-system; remove the field`) {
		t.Errorf("namespace elsewhere: got error %v, want a refusal", err)
	}
	err = KymaToHub(t.Context(), &Kyma{Spec: KymaSpec{Sync: &Sync{Enabled: true, Strategy: "local-client"}}},
		&v1beta2.Kyma{})
	if err == nil ||
		err.Error() != `spec.sync.strategy: "local-client" is not supported: the publisher does not use `+
			`kubeconfigs of runtimes; remove the field` {
		t.Errorf("strategy local-client: got error %v, want a refusal", err)
	}
	changed := &ModuleTemplate{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationRest: "{"}}}
	if err := ModuleTemplateToHub(t.Context(), changed, &v1beta2.ModuleTemplate{}); err == nil ||
		!strings.Contains(err.Error(), "metadata.annotations["+AnnotationRest+"]") {
		t.Errorf("invalid AnnotationRest: got error %v, want an error that names the annotation", err)
	}
}

func TestInvalidStoredAnnotationsAreDropped(t *testing.T) {
	for name, stored := range map[string]string{
		"invalid JSON": "{garbage", "empty text": "", "list instead of an object": `[1, 2]`,
		"field with the wrong type": `{"enabled": "yes"}`,
		"unsupported strategy":      `{"enabled": true, "strategy": "local-client"}`,
		"unsupported namespace":     `{"enabled": true, "namespace": "elsewhere"}`,
		"unknown fields":            `{"enabled": true, "shade": "red"}`,
	} {
		hub := &v1beta2.Kyma{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"mine": "stays", AnnotationSync: stored}},
			Spec:       v1beta2.KymaSpec{Channel: "fast"},
		}
		old, again := &Kyma{}, &v1beta2.Kyma{}
		if err := errors.Join(KymaFromHub(t.Context(), hub, old), KymaToHub(t.Context(), old, again)); err != nil {
			t.Errorf("%s: got error %v, want no error", name, err)
		}
		if !reflect.DeepEqual(again.Spec, hub.Spec) || again.Annotations["mine"] != "stays" {
			t.Errorf("%s: after a round trip, got Kyma %+v, want %+v", name, again, hub)
		}
		template := &v1beta2.ModuleTemplate{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"mine": "stays", AnnotationRest: stored}},
		}
		older, back := &ModuleTemplate{}, &v1beta2.ModuleTemplate{}
		if err := errors.Join(ModuleTemplateFromHub(t.Context(), template, older),
			ModuleTemplateToHub(t.Context(), older, back)); err != nil {
			t.Errorf("%s: got error %v, want no error", name, err)
		}
		if want := map[string]string{"mine": "stays"}; !reflect.DeepEqual(back.Annotations, want) ||
			!reflect.DeepEqual(back.Spec, template.Spec) {
			t.Errorf("%s: after a round trip, got ModuleTemplate %+v, want %+v", name, back, template)
		}
	}
}

func TestSpecSyncOverridesAnnotations(t *testing.T) {
	for name, c := range map[string]struct {
		sync        *Sync
		own         map[string]string
		noCopy      string // v1beta2 annotations NoModuleCopy and SyncCatalog
		withCatalog string
	}{
		"annotations contradict spec.sync": {
			&Sync{Enabled: true, ModuleCatalog: true},
			map[string]string{v1beta2.AnnotationNoModuleCopy: "true", v1beta2.AnnotationSyncCatalog: "false"}, "", "",
		},
		"annotations match spec.sync": {
			&Sync{Enabled: true, NoModuleCopy: true},
			map[string]string{v1beta2.AnnotationNoModuleCopy: "true", v1beta2.AnnotationSyncCatalog: "false"}, "true",
			"false",
		},
		"annotations have the opposite values": {
			&Sync{Enabled: true, NoModuleCopy: true},
			map[string]string{v1beta2.AnnotationNoModuleCopy: "false", v1beta2.AnnotationSyncCatalog: "true"}, "true",
			"false",
		},
		"no spec.sync": {
			nil, map[string]string{v1beta2.AnnotationNoModuleCopy: "true"}, "true", "",
		},
		"spec.sync is disabled": {
			&Sync{}, map[string]string{v1beta2.AnnotationSyncCatalog: "false"}, "", "false",
		},
		"annotation with an invalid value": {
			&Sync{Enabled: true, ModuleCatalog: true}, map[string]string{v1beta2.AnnotationNoModuleCopy: "perhaps"},
			"perhaps", "",
		},
		"annotation with an invalid value, field is set": {
			&Sync{Enabled: true, NoModuleCopy: true, ModuleCatalog: true},
			map[string]string{v1beta2.AnnotationNoModuleCopy: "perhaps"}, "true", "",
		},
		"no annotations": {
			&Sync{Enabled: true, NoModuleCopy: true, ModuleCatalog: true}, nil, "true", "",
		},
	} {
		before := &Kyma{
			ObjectMeta: metav1.ObjectMeta{Annotations: c.own}, Spec: KymaSpec{Channel: "fast", Sync: c.sync},
		}
		hub, after := &v1beta2.Kyma{}, &Kyma{}
		if err := errors.Join(KymaToHub(t.Context(), before, hub), KymaFromHub(t.Context(), hub, after)); err != nil ||
			!reflect.DeepEqual(after, before) {
			t.Errorf("%s: after a round trip (error %v), got\n%+v\nwant\n%+v", name, err, after, before)
		}
		if hub.Annotations[v1beta2.AnnotationNoModuleCopy] != c.noCopy ||
			hub.Annotations[v1beta2.AnnotationSyncCatalog] != c.withCatalog {
			t.Errorf("%s: got annotations %v, want no-module-copy %q and sync-module-catalog %q",
				name, hub.Annotations, c.noCopy, c.withCatalog)
		}
	}
	// Annotations that this package reserves have no effect if a v1beta1 client sets them.
	hub := &v1beta2.Kyma{}
	own := &Kyma{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationSync: `{"enabled":true}`}}}
	if err := KymaToHub(t.Context(), own, hub); err != nil || hub.Annotations != nil {
		t.Errorf("got %+v, error %v, want no annotations", hub, err)
	}
}

func TestModuleTemplateRoundTripKeepsTarget(t *testing.T) {
	for _, target := range []string{"", "remote", "control-plane", "nowhere"} {
		hub := &v1beta2.ModuleTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: "keda-1.0.0"},
			Spec:       v1beta2.ModuleTemplateSpec{Version: "1.0.0", ModuleName: "keda"},
		}
		if target != "" {
			hub.Annotations = map[string]string{v1beta2.AnnotationTarget: target}
		}
		old, again := &ModuleTemplate{}, &v1beta2.ModuleTemplate{}
		if err := errors.Join(ModuleTemplateFromHub(t.Context(), hub, old),
			ModuleTemplateToHub(t.Context(), old, again)); err != nil ||
			!reflect.DeepEqual(again, hub) {
			t.Errorf("target %q: after a round trip (error %v), got\n%+v\nwant\n%+v", target, err, again, hub)
		}
		if control := old.Spec.Target == TargetControlPlane; control != (target == "control-plane") ||
			!control && old.Spec.Target != TargetRemote {
			t.Errorf("v1beta2 target %q: got v1beta1 target %q, want control-plane only for control-plane",
				target, old.Spec.Target)
		}
		old.Spec.Target = TargetControlPlane
		moved := &v1beta2.ModuleTemplate{}
		if err := ModuleTemplateToHub(t.Context(), old, moved); err != nil ||
			moved.Annotations[v1beta2.AnnotationTarget] != v1beta2.TargetControlPlane {
			t.Errorf("target %q: got annotations %v, error %v, want the new target", target, moved.Annotations, err)
		}
	}
}

// FuzzStoredAnnotations checks that a v1beta2 object with arbitrary annotations can be read as v1beta1. It also checks
// that writing the v1beta1 object back does not change any setting.
func FuzzStoredAnnotations(f *testing.F) {
	f.Add(`{"enabled":true}`, "true", "false", "{}", "remote")
	f.Add(`{"enabled":true,"annotations":{"operator.kyma-project.io/sync-no-module-copy":"x"}}`, "", "",
		`{"version":"1"}`, "control-plane")
	f.Add("{garbage", "perhaps", "true", "[", "")
	f.Fuzz(func(t *testing.T, sync, noCopy, withCatalog, rest, target string) {
		count := func(annotations map[string]string) [3]bool {
			return [3]bool{
				annotations[v1beta2.AnnotationNoModuleCopy] == v1beta2.True,
				annotations[v1beta2.AnnotationSyncCatalog] == v1beta2.False,
				annotations[v1beta2.AnnotationTarget] == v1beta2.TargetControlPlane,
			}
		}
		kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			AnnotationSync: sync, v1beta2.AnnotationNoModuleCopy: noCopy, v1beta2.AnnotationSyncCatalog: withCatalog,
			"mine": "stays",
		}}}
		old, again, older := &Kyma{}, &v1beta2.Kyma{}, &Kyma{}
		if err := errors.Join(KymaFromHub(t.Context(), kyma, old), KymaToHub(t.Context(), old, again),
			KymaFromHub(t.Context(), again, older)); err != nil {
			t.Fatal(err)
		}
		if count(again.Annotations) != count(kyma.Annotations) || again.Annotations["mine"] != "stays" ||
			!reflect.DeepEqual(older, old) {
			t.Fatalf("a round trip changed annotations %v to %v, and Kyma %+v to %+v", kyma.Annotations,
				again.Annotations, old, older)
		}
		template := &v1beta2.ModuleTemplate{
			ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{AnnotationRest: rest, v1beta2.AnnotationTarget: target},
			},
		}
		was, back := &ModuleTemplate{}, &v1beta2.ModuleTemplate{}
		if err := errors.Join(ModuleTemplateFromHub(t.Context(), template, was),
			ModuleTemplateToHub(t.Context(), was, back)); err != nil {
			t.Fatal(err)
		}
		if count(back.Annotations) != count(template.Annotations) || !reflect.DeepEqual(back.Spec, template.Spec) {
			t.Fatalf("a round trip changed %+v to %+v", template, back)
		}
	})
}

func TestV1beta2AnnotationsOverrideStoredSync(t *testing.T) {
	hub := &v1beta2.Kyma{}
	if err := KymaToHub(t.Context(),
		&Kyma{Spec: KymaSpec{Sync: &Sync{Enabled: true, NoModuleCopy: true, ModuleCatalog: true}}}, hub); err != nil {
		t.Fatal(err)
	}
	delete(hub.Annotations, v1beta2.AnnotationNoModuleCopy)
	hub.Annotations[v1beta2.AnnotationSyncCatalog] = v1beta2.False
	after := &Kyma{}
	if err := KymaFromHub(t.Context(), hub, after); err != nil || after.Spec.Sync.NoModuleCopy ||
		after.Spec.Sync.ModuleCatalog {
		t.Errorf("got spec.sync %+v, error %v, want the values of the annotations", after.Spec.Sync, err)
	}
}

func TestModuleTemplateSurvivesRoundTrip(t *testing.T) {
	old := &ModuleTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "keda-fast"},
		Spec: ModuleTemplateSpec{
			Channel:          "fast",
			Mandatory:        true,
			RequiresDowntime: true,
			Target:           TargetControlPlane,
			Descriptor:       runtime.RawExtension{Raw: []byte("{}")},
			CustomStateCheck: []v1beta2.CustomStateCheck{{JSONPath: "a", Value: "b", MappedState: v1beta2.StateReady}},
		},
	}
	hub, back := &v1beta2.ModuleTemplate{}, &ModuleTemplate{}
	if err := ModuleTemplateToHub(t.Context(), old, hub); err != nil ||
		hub.Annotations[v1beta2.AnnotationTarget] != string(TargetControlPlane) {
		t.Errorf("got %+v, error %v, want the annotation of the target", hub, err)
	}
	if err := ModuleTemplateFromHub(t.Context(), hub, back); err != nil || !reflect.DeepEqual(old, back) {
		t.Errorf("after a round trip (error %v), got\n%+v\nwant\n%+v", err, back, old)
	}
	recent := &v1beta2.ModuleTemplate{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "keda-1.0.0",
			Annotations: map[string]string{"a": "b", v1beta2.AnnotationTarget: "remote"},
		},
		Spec: v1beta2.ModuleTemplateSpec{
			Version: "1.0.0", ModuleName: "keda",
			Resources:           []v1beta2.ResourceLink{{Name: "r", Link: "https://a.example"}},
			Info:                &v1beta2.ModuleInfo{Repository: "r"},
			AssociatedResources: []metav1.GroupVersionKind{{Kind: "A"}}, Manager: &v1beta2.Manager{Name: "m"},
		},
	}
	older, again := &ModuleTemplate{}, &v1beta2.ModuleTemplate{}
	if err := ModuleTemplateFromHub(t.Context(), recent, older); err != nil || older.Spec.Target != TargetRemote {
		t.Errorf("got %+v, error %v, want target remote", older, err)
	}
	if err := ModuleTemplateToHub(t.Context(), older, again); err != nil || !reflect.DeepEqual(recent, again) {
		t.Errorf("after a round trip (error %v), got\n%+v\nwant\n%+v", err, again, recent)
	}
}
