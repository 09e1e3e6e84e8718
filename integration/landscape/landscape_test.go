package landscape

import (
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// identity is the placeholder for all UIDs in the recording.
const identity = "00000000-0000-0000-0000-000000000000"

func recordedModules() []Module {
	return []Module{{sample.Mailer("1.1.0"), "regular"}, {Prioritized(), "regular"}}
}

func TestLifecycleManagerLandscapeMatchesRecording(t *testing.T) {
	spec := v1beta2.KymaSpec{Channel: "regular"}
	kyma, err := Kyma(RecordedKyma, spec, recordedModules()...)
	if err != nil {
		t.Fatal(err)
	}
	want := &v1beta2.Kyma{}
	if err := recorded("kcp", "Kyma", RecordedKyma, want); err != nil {
		t.Fatal(err)
	}
	want.Generation, want.ManagedFields, want.Spec = 0, nil, spec
	compare(t, kyma, want)
	kyma.UID = identity
	for _, m := range recordedModules() {
		manifest, err := Manifest(kyma, m)
		if err != nil {
			t.Fatal(err)
		}
		want := &v1beta2.Manifest{}
		if err := recorded("kcp", "Manifest", ManifestName(RecordedKyma, m.Module), want); err != nil {
			t.Fatal(err)
		}
		want.Generation, want.ManagedFields = 0, nil
		compare(t, manifest, want)
	}
}

// compare fails the test unless two objects are equal as JSON.
func compare(t *testing.T, got, want any) {
	t.Helper()
	a, errGot := yaml.Marshal(got)
	b, errWant := yaml.Marshal(want)
	if errGot != nil || errWant != nil || string(a) != string(b) {
		t.Errorf("got\n%s\nrecorded is\n%s", a, b)
	}
}

func TestInstalledObjectsMatchRecordedLabelsAndManagers(t *testing.T) {
	all, err := Recorded("1-installed", "skr")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, m := range append(recordedModules(), Module{Guard("1.0.0"), ""}) {
		installed, err := Installed(RecordedKyma, m)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range installed {
			want := all[a.Object.GetKind()+"/"+a.Object.GetNamespace()+"/"+a.Object.GetName()]
			if want == nil {
				t.Errorf("%s %s is not recorded", a.Object.GetKind(), a.Object.GetName())
				continue
			}
			seen++
			if !reflect.DeepEqual(a.Object.GetLabels(), want.GetLabels()) ||
				!reflect.DeepEqual(a.Object.GetAnnotations(), want.GetAnnotations()) {
				t.Errorf("%s %s has\n%v %v\nrecorded is\n%v %v", a.Object.GetKind(), a.Object.GetName(),
					a.Object.GetLabels(), a.Object.GetAnnotations(), want.GetLabels(), want.GetAnnotations())
			}
			if !slices.ContainsFunc(want.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
				return f.Manager == a.Manager && (f.Operation == metav1.ManagedFieldsOperationUpdate) == a.Created
			}) {
				t.Errorf("%s %s has field manager %s (created: %t), which differs from the recording",
					a.Object.GetKind(), a.Object.GetName(), a.Manager, a.Created)
			}
		}
	}
	if ofModules := count(all, v1beta2.FieldManagerApplier,
		v1beta2.LifecycleManagerFinalizerResource); seen != ofModules {
		t.Errorf("got %d objects, want the %d recorded objects", seen, ofModules)
	}
}

func TestTakeoverKnowsRecordedFieldManagers(t *testing.T) {
	for _, step := range []string{"1-installed", "2-upgraded", "3-unmanaged", "4-removing", "5-removed", "6-deleted"} {
		all, err := Recorded(step, "skr")
		if err != nil {
			t.Fatal(err)
		}
		for key, o := range all {
			for _, f := range o.GetManagedFields() {
				// The recorder wrote the user's fields in the Kyma with lifecycle-manager's binary name, so exclude
				// them.
				byName := o.GetKind() == "Kyma" && (f.Manager == "manager" || f.Manager == "operator")
				if !byName && !slices.Contains(v1beta2.LifecycleManagerFieldManagers(), f.Manager) {
					t.Errorf("%s: %s has an unknown field manager %s", step, key, f.Manager)
				}
			}
		}
	}
}

func count(all map[string]*unstructured.Unstructured, managers ...string) (n int) {
	for _, o := range all {
		if slices.Contains(managers, o.GetManagedFields()[0].Manager) {
			n++
		}
	}
	return n
}
