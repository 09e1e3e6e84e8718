package takeover

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

var deployment = v1beta2.Resource{
	Name: "keda", Namespace: "kyma-system", GroupVersionKind: metav1.GroupVersionKind{
		Group: "apps", Version: "v1", Kind: "Deployment",
	},
}

func kymaNamed(name string, modules ...v1beta2.ModuleStatus) *v1beta2.Kyma {
	return &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kcp-system", Name: name, Labels: map[string]string{v1beta2.LabelRuntimeID: name},
		},
		Spec: v1beta2.KymaSpec{Channel: "regular"}, Status: v1beta2.KymaStatus{Modules: modules},
	}
}

func manifestOf(kyma, module, version string, changes ...func(*v1beta2.Manifest)) v1beta2.Manifest {
	m := v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: kyma + "-" + module, Finalizers: finalizers,
			Labels: map[string]string{
				v1beta2.LabelKymaName: kyma, v1beta2.LabelModuleName: module, v1beta2.LabelChannel: "regular"}},
		Spec:   v1beta2.ManifestSpec{Version: version},
		Status: v1beta2.ManifestStatus{State: v1beta2.StateReady, Synced: []v1beta2.Resource{deployment}},
	}
	for _, change := range changes {
		change(&m)
	}
	return m
}

func TestRecordModulesReadsManifestsAndStatus(t *testing.T) {
	keda := v1beta2.InheritedModule{
		Name: "keda", Version: "1.7.0", Channel: "regular", Objects: []v1beta2.Resource{deployment},
	}
	status := v1beta2.ModuleStatus{Name: "keda", Version: "1.6.0", Channel: "regular", State: v1beta2.StateReady,
		Manifest: &v1beta2.TrackingObject{PartialMeta: v1beta2.PartialMeta{Name: "one-keda"}}}
	for name, c := range map[string]struct {
		kyma      *v1beta2.Kyma
		manifests []v1beta2.Manifest
		want      []v1beta2.InheritedModule
	}{
		"Manifest of a module": {
			kymaNamed("one"), []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0")}, []v1beta2.InheritedModule{keda},
		},
		"another Kyma's Manifest": {
			kymaNamed("one"), []v1beta2.Manifest{manifestOf("two", "keda", "1.7.0")}, nil,
		},
		"Kyma without Manifests": {kymaNamed("one"), nil, nil},
		"Manifest is being deleted": {
			kymaNamed("one"), []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0", deleted)},
			[]v1beta2.InheritedModule{keda},
		},
		"module only in the status": {kymaNamed("one", status), nil,
			[]v1beta2.InheritedModule{{Name: "keda", Version: "1.6.0", Channel: "regular"}}},
		"Manifest takes precedence over the status": {
			kymaNamed("one", status), []v1beta2.Manifest{manifestOf("one", "keda", "1.7.0")},
			[]v1beta2.InheritedModule{keda},
		},
		"Manifest without a module name": {kymaNamed("one", status),
			[]v1beta2.Manifest{manifestOf("one", "keda", "1.7.0", func(m *v1beta2.Manifest) {
				delete(m.Labels, v1beta2.LabelModuleName)
			})}, []v1beta2.InheritedModule{keda}},
		"Manifest without a version": {kymaNamed("one", status), []v1beta2.Manifest{manifestOf("one", "keda", "")},
			[]v1beta2.InheritedModule{
				{Name: "keda", Version: "1.6.0", Channel: "regular", Objects: []v1beta2.Resource{deployment}},
			}},
		"unmanaged module": {kymaNamed("one", v1beta2.ModuleStatus{
			Name: "mail", Version: "1.0.0", State: v1beta2.StateUnmanaged,
		}),
			[]v1beta2.Manifest{manifestOf("one", "keda", "1.7.0", func(m *v1beta2.Manifest) {
				m.Annotations = map[string]string{v1beta2.AnnotationUnmanaged: v1beta2.True}
			})}, []v1beta2.InheritedModule{{Name: "mail", Version: "1.0.0", Unmanaged: true}}},
		"object with an invalid name": {kymaNamed("one"),
			[]v1beta2.Manifest{manifestOf("one", "keda", "1.7.0", func(m *v1beta2.Manifest) {
				m.Status.Synced = append(m.Status.Synced, v1beta2.Resource{Name: "../x"})
			})}, []v1beta2.InheritedModule{keda}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := recordModules(c.kyma, c.manifests); !reflect.DeepEqual(got.Modules, c.want) {
				t.Errorf("got %+v, want %+v", got.Modules, c.want)
			}
		})
	}
}

func TestRecordedObjectsAreLimited(t *testing.T) {
	huge := manifestOf("one", "keda", "1.7.0")
	for len(huge.Status.Synced) <= bundle.MaxInherited {
		o := deployment
		o.Name = strings.Repeat("k", 1+len(huge.Status.Synced)%50)
		huge.Status.Synced = append(huge.Status.Synced, o)
	}
	got := recordModules(kymaNamed("one"), []v1beta2.Manifest{huge})
	if len(got.Modules[0].Objects) != bundle.MaxInherited {
		t.Errorf("got %d recorded objects, want %d", len(got.Modules[0].Objects), bundle.MaxInherited)
	}
}

// Modules choose their objects' names, so the records must fit into the Kyma's status for any name.
func TestRecordedObjectsAreLimitedInBytes(t *testing.T) {
	long := deployment
	long.Name = strings.Repeat("k", 250)
	long.Group = strings.Repeat("g", 250)
	var manifests []v1beta2.Manifest
	for _, module := range []string{"a", "b", "c", "d"} {
		m := manifestOf("one", module, "1.0.0")
		m.Status.Synced = slices.Repeat([]v1beta2.Resource{long}, 1_000)
		manifests = append(manifests, m)
	}
	kyma := kymaNamed("one")
	data, err := json.Marshal(recordModules(kyma, manifests))
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > maxInheritedBytes+1<<10 || len(data) < maxInheritedBytes/2 {
		t.Errorf("the record is %d bytes, must be at most %d", len(data), maxInheritedBytes)
	}
	if all := strings.Join(listObstacles(kyma, manifests), "; "); !strings.Contains(all, "bytes, must be at most") {
		t.Errorf("got obstacles %q, want the size of the names", all)
	}
}

func deleted(m *v1beta2.Manifest) { m.DeletionTimestamp = new(metav1.Now()) }
