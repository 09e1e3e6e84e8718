package v1beta1

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestAKymaOfBeforeKeepsAllItSays(t *testing.T) {
	module := v1beta2.Module{Name: "keda", Channel: "fast", Managed: true}
	for name, c := range map[string]struct {
		sync *Sync
		want map[string]string // annotations in v1beta2, but for the carried field
	}{
		"without sync":                     {nil, nil},
		"with sync switched off":           {&Sync{NoModuleCopy: true, ModuleCatalog: true, Strategy: "secret", Namespace: "elsewhere"}, map[string]string{}},
		"with a copy of the modules":       {&Sync{Enabled: true, ModuleCatalog: true, Strategy: "local-secret"}, map[string]string{}},
		"without a copy, as it was before": {&Sync{Enabled: true, NoModuleCopy: true, ModuleCatalog: true, Namespace: "kyma-system"}, map[string]string{v1beta2.AnnotationNoModuleCopy: "true"}},
		"without a catalog":                {&Sync{Enabled: true}, map[string]string{v1beta2.AnnotationSyncCatalog: "false"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := &Kyma{
				ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"mine": "stays"}},
				Spec:       KymaSpec{Channel: "regular", SkipMaintenanceWindows: true, Modules: []v1beta2.Module{module}, Sync: c.sync},
				Status:     v1beta2.KymaStatus{State: v1beta2.StateReady, ActiveChannel: "regular"},
			}
			hub, after := &v1beta2.Kyma{}, &Kyma{}
			if err := KymaToHub(t.Context(), before, hub); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(hub.Spec, v1beta2.KymaSpec{Channel: "regular", SkipMaintenanceWindows: true, Modules: []v1beta2.Module{module}}) || !reflect.DeepEqual(hub.Status, before.Status) || hub.Annotations["mine"] != "stays" {
				t.Errorf("as v1beta2 it is %+v", hub)
			}
			for name, value := range c.want {
				if hub.Annotations[name] != value {
					t.Errorf("annotation %s is %q, want %q", name, hub.Annotations[name], value)
				}
			}
			if extra := len(hub.Annotations) - 1 - len(c.want); c.want != nil && extra != 1 || c.want == nil && extra != 0 {
				t.Errorf("annotations are %v", hub.Annotations)
			}
			if err := KymaFromHub(t.Context(), hub, after); err != nil || !reflect.DeepEqual(after, before) {
				t.Errorf("%v: back it is\n%+v\nwant\n%+v", err, after, before)
			}
		})
	}
}

func TestWhatMeansNothingHereIsRefusedByField(t *testing.T) {
	err := KymaToHub(t.Context(), &Kyma{Spec: KymaSpec{Sync: &Sync{Enabled: true, Namespace: "elsewhere"}}}, &v1beta2.Kyma{})
	if err == nil || !strings.Contains(err.Error(), `spec.sync.namespace: "elsewhere": the runtime's Kyma is always in kyma-system: remove the field`) {
		t.Errorf("got %v", err)
	}
	broken := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationSync: "{"}}}
	if err := KymaFromHub(t.Context(), broken, &Kyma{}); err == nil || !strings.Contains(err.Error(), "metadata.annotations["+AnnotationSync+"]") {
		t.Errorf("got %v", err)
	}
}

func TestWhatASwitchSaysInTheNewVersionCounts(t *testing.T) {
	hub := &v1beta2.Kyma{}
	if err := KymaToHub(t.Context(), &Kyma{Spec: KymaSpec{Sync: &Sync{Enabled: true, NoModuleCopy: true, ModuleCatalog: true}}}, hub); err != nil {
		t.Fatal(err)
	}
	delete(hub.Annotations, v1beta2.AnnotationNoModuleCopy)
	hub.Annotations[v1beta2.AnnotationSyncCatalog] = v1beta2.False
	after := &Kyma{}
	if err := KymaFromHub(t.Context(), hub, after); err != nil || after.Spec.Sync.NoModuleCopy || after.Spec.Sync.ModuleCatalog {
		t.Errorf("%v: %+v", err, after.Spec.Sync)
	}
}

func TestATemplateOfEitherVersionSurvivesTheOther(t *testing.T) {
	old := &ModuleTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "keda-fast"},
		Spec: ModuleTemplateSpec{Channel: "fast", Mandatory: true, RequiresDowntime: true, Target: TargetControlPlane, Descriptor: runtime.RawExtension{Raw: []byte("{}")},
			CustomStateCheck: []v1beta2.CustomStateCheck{{JSONPath: "a", Value: "b", MappedState: v1beta2.StateReady}}},
	}
	hub, back := &v1beta2.ModuleTemplate{}, &ModuleTemplate{}
	if err := ModuleTemplateToHub(t.Context(), old, hub); err != nil || hub.Annotations[v1beta2.AnnotationTarget] != string(TargetControlPlane) {
		t.Errorf("%v: %+v", err, hub)
	}
	if err := ModuleTemplateFromHub(t.Context(), hub, back); err != nil || !reflect.DeepEqual(old, back) {
		t.Errorf("%v: got\n%+v\nwant\n%+v", err, back, old)
	}
	recent := &v1beta2.ModuleTemplate{ObjectMeta: metav1.ObjectMeta{Name: "keda-1.0.0", Annotations: map[string]string{"a": "b", v1beta2.AnnotationTarget: "remote"}}, Spec: v1beta2.ModuleTemplateSpec{
		Version: "1.0.0", ModuleName: "keda", Resources: []v1beta2.ResourceLink{{Name: "r", Link: "https://a.example"}}, Info: &v1beta2.ModuleInfo{Repository: "r"},
		AssociatedResources: []metav1.GroupVersionKind{{Kind: "A"}}, Manager: &v1beta2.Manager{Name: "m"},
	}}
	older, again := &ModuleTemplate{}, &v1beta2.ModuleTemplate{}
	if err := ModuleTemplateFromHub(t.Context(), recent, older); err != nil || older.Spec.Target != TargetRemote {
		t.Errorf("%v: %+v", err, older)
	}
	if err := ModuleTemplateToHub(t.Context(), older, again); err != nil || !reflect.DeepEqual(recent, again) {
		t.Errorf("%v: got\n%+v\nwant\n%+v", err, again, recent)
	}
}
