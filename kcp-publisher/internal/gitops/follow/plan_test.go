package follow

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

const (
	kyma = `apiVersion: operator.kyma-project.io/v1beta2
kind: Kyma
metadata: {name: %s}
spec: {channel: regular, modules: [{name: keda}]}
`
	releaseMeta = `apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleReleaseMeta
metadata: {name: keda}
spec: {moduleName: keda, channels: [{channel: regular, version: 1.0.0}]}
`
	template = `apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleTemplate
metadata: {name: keda-1.0.0}
spec: {moduleName: keda, version: 1.0.0, descriptor: {}}
`
	policy = `apiVersion: fleet.kyma-project.io/v1alpha1
kind: RolloutPolicy
metadata: {name: slow}
spec: {waves: [{name: canary, count: 3, soak: 1h}]}
`
	secret = `apiVersion: v1
kind: Secret
metadata: {name: release, labels: {operator.kyma-project.io/signature: release}}
stringData: {key: PEM}
`
)

func a(name string) string { return fmt.Sprintf(kyma, name) }

func written(t *testing.T, documents ...string) []source.Written {
	t.Helper()
	objects, err := source.Files(fstest.MapFS{"all.yaml": {Data: []byte(strings.Join(documents, "---\n"))}}, "fleet")
	if err != nil {
		t.Fatal(err)
	}
	return objects.Written
}

func wanted(t *testing.T, documents ...string) []source.Written {
	t.Helper()
	all, _, err := wantedObjects(written(t, documents...), "kcp-system")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func inForce(t *testing.T, documents ...string) (map[Key]*unstructured.Unstructured, []Key) {
	t.Helper()
	plan, err := newPlan(wanted(t, documents...), "c1", nil, Inventory{}, limits)
	if err != nil {
		t.Fatal(err)
	}
	live := map[Key]*unstructured.Unstructured{}
	for _, w := range plan.Apply {
		object := w.Object.DeepCopy()
		object.SetResourceVersion("7")
		object.SetManagedFields([]metav1.ManagedFieldsEntry{
			owns(fieldManager, metav1.ManagedFieldsOperationApply, ownedOf(object)),
		})
		live[KeyOf(object)] = object
	}
	return live, plan.Inventory
}

// limits contains the default values of the flags.
var limits = Pruning{MaxPercent: 10, MaxCount: 5}

func owns(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, APIVersion: v1beta2.GroupVersion.String(), FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func ownedOf(object *unstructured.Unstructured) string {
	if object.GetKind() == "Kyma" {
		return `{"f:spec":{"f:channel":{},"f:modules":{"k:{\"name\":\"keda\"}":{".":{},"f:name":{}}}}}`
	}
	return `{"f:spec":{}}`
}

func namesOf(objects []source.Written) string {
	var names []string
	for _, w := range objects {
		names = append(names, KeyOf(&w.Object).String())
	}
	return strings.Join(names, ", ")
}

func TestReferencedObjectsAreAppliedFirst(t *testing.T) {
	all, left, err := wantedObjects(written(t, a("two"), releaseMeta, a("one"), policy, secret, template), "kcp-system")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := namesOf(all),
		"ModuleTemplate keda-1.0.0, RolloutPolicy slow, ModuleReleaseMeta keda, Kyma one, Kyma two"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(left) != 1 || !strings.HasSuffix(left[0], ": Secret release") {
		t.Errorf("left out %v, want the Secret", left)
	}
	for _, w := range all {
		if w.Object.GetNamespace() != "kcp-system" {
			t.Errorf("object at %s: got namespace %q, want kcp-system", w.Place, w.Object.GetNamespace())
		}
	}
}

func TestObjectsInOtherNamespacesAreRefusedWithFileAndLine(t *testing.T) {
	elsewhere := strings.Replace(a("one"), "name: one", "name: one, namespace: other", 1)
	here := strings.Replace(a("one"), "name: one", "name: one, namespace: kcp-system", 1)
	for name, c := range map[string]struct {
		documents []string
		want      string
	}{
		"other namespace": {
			[]string{a("two"), elsewhere},
			`fleet/all.yaml:6: metadata.namespace is "other", must be the control plane's namespace "kcp-system"`,
		},
		"duplicate with and without namespace": {
			[]string{here, a("one")}, "fleet/all.yaml:6: Kyma one is already defined in fleet/all.yaml:1",
		},
		"duplicate in other namespace": {[]string{here, elsewhere}, `fleet/all.yaml:6: metadata.namespace is "other"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := wantedObjects(written(t, c.documents...), "kcp-system"); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestCommitThatMatchesLiveObjectsChangesNothing(t *testing.T) {
	live, inventory := inForce(t, template, releaseMeta, a("one"))
	plan, err := newPlan(wanted(t, a("one"), releaseMeta, template), "c2", live, Inventory{Keys: inventory}, limits)
	if err != nil || len(plan.Apply) != 0 || len(plan.Prune) != 0 || len(plan.Inventory) != 3 {
		t.Errorf("got plan %+v and error %v, want no changes", plan, err)
	}
}

func TestObjectsThatDifferFromTheCommitAreApplied(t *testing.T) {
	promoted := strings.Replace(releaseMeta, "1.0.0", "2.0.0", 1)
	for name, c := range map[string]struct {
		commit []string
		live   func(map[Key]*unstructured.Unstructured)
		want   string
	}{
		"promotion":  {[]string{template, promoted, a("one")}, nil, "ModuleReleaseMeta keda"},
		"new object": {[]string{template, releaseMeta, a("one"), a("two")}, nil, "Kyma two"},
		"changed field": {[]string{template, releaseMeta, a("one")},
			func(live map[Key]*unstructured.Unstructured) {
				_ = unstructured.SetNestedField(live[key("Kyma", "one")].Object, "fast", "spec", "channel")
			}, "Kyma one"},
		"label set by another client": {[]string{template, releaseMeta, a("one")},
			func(live map[Key]*unstructured.Unstructured) {
				live[key("Kyma", "one")].SetLabels(map[string]string{"mine": "yes"})
				alsoOwned(live[key("Kyma", "one")], `{"f:metadata":{"f:labels":{".":{},"f:mine":{}}}}`)
			}, ""},
		"spec field set by another client": {[]string{template, releaseMeta, a("one")},
			func(live map[Key]*unstructured.Unstructured) {
				_ = unstructured.SetNestedField(live[key("Kyma", "one")].Object, true, "spec", "skipMaintenanceWindows")
				alsoOwned(live[key("Kyma", "one")], `{"f:spec":{"f:skipMaintenanceWindows":{}}}`)
			}, "Kyma one"},
		"module added by another client": {[]string{template, releaseMeta, a("one")},
			func(live map[Key]*unstructured.Unstructured) {
				_ = unstructured.SetNestedSlice(live[key("Kyma", "one")].Object,
					[]any{map[string]any{"name": "keda"}, map[string]any{"name": "mine"}}, "spec", "modules")
			}, "Kyma one"},
		"another client applied equal fields": {[]string{template, releaseMeta, a("one")},
			func(live map[Key]*unstructured.Unstructured) {
				alsoOwned(live[key("Kyma", "one")],
					`{"f:spec":{".":{},"f:channel":{},"f:modules":{".":{},"k:{\"name\":\"keda\"}":{".":{},"f:name":{}}}}}`)
			}, ""},
		"object without managed fields": {[]string{template, releaseMeta, a("one")},
			func(live map[Key]*unstructured.Unstructured) {
				live[key("Kyma", "one")].SetManagedFields(nil)
			}, "Kyma one"},
		"fields defaulted by the API server": {[]string{template, releaseMeta, a("one")},
			func(live map[Key]*unstructured.Unstructured) {
				_ = unstructured.SetNestedSlice(live[key("Kyma", "one")].Object,
					[]any{map[string]any{"name": "keda", "managed": true}}, "spec", "modules")
			}, ""},
		"removed field": {
			[]string{template, releaseMeta, strings.Replace(a("one"), ", modules: [{name: keda}]", "", 1)}, nil,
			"Kyma one",
		},
		"removed commit annotation": {[]string{template, releaseMeta, a("one")},
			func(live map[Key]*unstructured.Unstructured) {
				annotations := live[key("Kyma", "one")].GetAnnotations()
				delete(annotations, v1beta2.AnnotationGitCommit)
				live[key("Kyma", "one")].SetAnnotations(annotations)
			}, "Kyma one"},
		"finalizer set in Git": {[]string{template, releaseMeta, strings.Replace(a("one"), "{name: one}",
			"{name: one, finalizers: [x.io/y], generateName: o, deletionTimestamp: 2026-01-01T00:00:00Z, "+
				"ownerReferences: [{name: a}]}", 1)}, nil, ""},
		"deleted object": {[]string{template, releaseMeta, a("one")},
			func(live map[Key]*unstructured.Unstructured) {
				delete(live, key("ModuleTemplate", "keda-1.0.0"))
			}, "ModuleTemplate keda-1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			live, inventory := inForce(t, template, releaseMeta, a("one"))
			if c.live != nil {
				c.live(live)
			}
			plan, err := newPlan(wanted(t, c.commit...), "c2", live, Inventory{Keys: inventory}, limits)
			if err != nil {
				t.Fatal(err)
			}
			if got := namesOf(plan.Apply); got != c.want || len(plan.Prune) != 0 {
				t.Errorf("plan applies %q and prunes %v, want to apply %q", got, plan.Prune, c.want)
			}
			for _, w := range plan.Apply {
				if w.Object.GetAnnotations()[v1beta2.AnnotationGitCommit] != "c2" ||
					w.Object.GetAnnotations()[v1beta2.AnnotationGitDigest] == "" {
					t.Errorf("object at %s: got annotations %v, want commit c2 and a digest",
						w.Place, w.Object.GetAnnotations())
				}
			}
		})
	}
}

func TestPlanListsObjectsBeingDeleted(t *testing.T) {
	live, inventory := inForce(t, template, a("one"))
	now := metav1.Now()
	live[key("Kyma", "one")].SetDeletionTimestamp(&now)
	plan, err := newPlan(wanted(t, template, a("one")), "c2", live, Inventory{Keys: inventory}, limits)
	if err != nil || plan.isEmpty() || plan.Changes() != 0 || len(plan.Deleting) != 1 ||
		plan.Deleting[0] != key("Kyma", "one") {
		t.Errorf("got plan %+v and error %v, want Kyma one in Deleting", plan, err)
	}
}

func alsoOwned(object *unstructured.Unstructured, fields string) {
	object.SetManagedFields(append(object.GetManagedFields(),
		owns("kubectl-edit", metav1.ManagedFieldsOperationUpdate, fields)))
}

func key(kind, name string) Key {
	return Key{schema.GroupKind{Group: v1beta2.Group, Kind: kind}, name}
}

func TestPruneRemovesOnlyObjectsMissingFromTheCommit(t *testing.T) {
	live, inventory := inForce(t, template, releaseMeta, a("one"), a("two"))
	byHand := key("Kyma", "by-hand")
	live[byHand] = live[key("Kyma", "two")].DeepCopy()
	plan, err := newPlan(wanted(t, template, a("one")), "c2", live, Inventory{Keys: inventory}, limits)
	if err != nil {
		t.Fatal(err)
	}
	if want := []Key{key("ModuleReleaseMeta", "keda"), key("Kyma", "two")}; !reflect.DeepEqual(plan.Prune, want) {
		t.Errorf("plan prunes %v, want %v", plan.Prune, want)
	}
}

func TestCommitThatRemovesAllObjectsIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		commit []string
		want   string // part of the refusal
		pruned int    // number of removals that an operator allowed
	}{
		"commit without objects":       {nil, "check the path", 3},
		"commit with only new objects": {[]string{a("three")}, "the commit removes all 3 objects of earlier commits", 3},
		"commit without Kymas":         {[]string{template}, "the commit removes all 2 Kymas of earlier commits", 2},
		"commit with only new Kymas":   {[]string{template, a("three"), a("four")}, "the commit removes all 2 Kymas", 2},
	} {
		t.Run(name, func(t *testing.T) {
			live, inventory := inForce(t, template, a("one"), a("two"))
			all := wanted(t, c.commit...)
			if plan, err := newPlan(all, "c2", live, Inventory{Keys: inventory}, limits); err == nil ||
				!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "set --git-prune-all") ||
				!strings.Contains(err.Error(), v1beta2.AnnotationAllowPrune+"=c2") {
				t.Errorf("got plan %+v and error %v, want a refusal", plan, err)
			}
			if plan, err := newPlan(all, "c2", live, Inventory{Keys: inventory}, Pruning{All: true}); err != nil ||
				len(plan.Prune) != c.pruned {
				t.Errorf("with permission: got plan %+v and error %v, want %d pruned objects", plan, err, c.pruned)
			}
		})
	}
	if _, err := newPlan(nil, "c1", nil, Inventory{}, limits); err == nil {
		t.Error("a first commit without objects is accepted")
	}
}

func TestInventorySurvivesRoundTrip(t *testing.T) {
	keys := []Key{key("Kyma", "one"), key("ModuleTemplate", "keda-1.0.0"), key("Kyma", "two"), key("Kyma", "one")}
	text, err := encodeInventory(keys)
	if err != nil {
		t.Fatal(err)
	}
	want := "Kyma.operator.kyma-project.io one two\nModuleTemplate.operator.kyma-project.io keda-1.0.0"
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	read, err := decodeInventory(text)
	if want := []Key{keys[0], keys[2], keys[1]}; err != nil || !reflect.DeepEqual(read, want) {
		t.Errorf("got keys %v and error %v, want %v", read, err, want)
	}
	if none, err := decodeInventory(""); err != nil || none != nil {
		t.Errorf("an empty inventory is decoded as %v, %v", none, err)
	}
	if _, err := decodeInventory("Kyma.operator.kyma-project.io one\nKyma"); err == nil {
		t.Error("an inventory line without names is accepted")
	}
}

func TestLargeFleetInventoryFitsInTheRecord(t *testing.T) {
	var keys []Key
	for i := range 20_000 {
		keys = append(keys, key("Kyma", fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i)))
	}
	if _, err := encodeInventory(keys); err != nil {
		t.Error(err)
	}
	for i := range 10_000 {
		keys = append(keys, key("Kyma", fmt.Sprintf("%08x-1111-4000-8000-%012x", i, i)))
	}
	if _, err := encodeInventory(keys); err == nil ||
		!strings.Contains(err.Error(), "bytes, must be at most 921600") {
		t.Errorf("got error %v, want the size limit", err)
	}
}
