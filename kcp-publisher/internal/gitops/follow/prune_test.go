package follow

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestLargePruneWaitsForPermission(t *testing.T) {
	var all []string
	for i := range 100 {
		all = append(all, a(fmt.Sprintf("k%03d", i)))
	}
	withRuntime := func(field string) func(map[Key]*unstructured.Unstructured) {
		return func(live map[Key]*unstructured.Unstructured) {
			_ = unstructured.SetNestedMap(live[key("Kyma", "k007")].Object, map[string]any{"x": "y"}, "status",
				"runtime", field)
		}
	}
	without7 := append(append([]string{}, all[:7]...), all[8:]...)
	for name, c := range map[string]struct {
		commit  []string
		live    func(map[Key]*unstructured.Unstructured)
		pruning Pruning
		added   []Key
		held    string // part of the message, or empty
		pruned  int
	}{
		"prune at the maximum percentage": {commit: all[10:], pruning: limits, pruned: 10},
		"prune over the maximum percentage": {
			commit: all[11:], pruning: limits,
			held:   "would prune 11 of 100 other objects (at most 5 or 10% without permission): Kyma k000, Kyma k001",
			pruned: 11,
		},
		"message with more than ten objects": {
			commit: all[50:], pruning: limits, held: "Kyma k009, and 40 more", pruned: 50,
		},
		"prune at the maximum count": {
			commit: all[5:], pruning: Pruning{MaxPercent: 1, MaxCount: 5}, pruned: 5,
		},
		"prune over the maximum count and percentage": {
			commit: all[6:], pruning: Pruning{MaxPercent: 1, MaxCount: 5}, held: "6 of 100", pruned: 6,
		},
		"Kyma with a reporting runtime": {
			commit: without7, live: withRuntime("observed"), pruning: limits,
			held: "would prune 1 Kymas with a live runtime, which would be emptied: Kyma k007", pruned: 1,
		},
		"Kyma with an enrolled runtime": {
			commit: without7, live: withRuntime("key"), pruning: limits, held: "Kyma k007", pruned: 1,
		},
		"Kyma with a published bundle only": {
			commit: without7, live: withRuntime("published"), pruning: limits, pruned: 1,
		},
		"permission for a different commit": {
			commit: without7, live: withRuntime("key"), pruning: Pruning{MaxPercent: 10, MaxCount: 5, Allowed: "c1"},
			held: "Kyma k007", pruned: 1,
		},
		"permission for this commit": {
			commit: without7, live: withRuntime("key"), pruning: Pruning{MaxPercent: 10, MaxCount: 5, Allowed: "c2"},
			pruned: 1,
		},
		"permission for all commits": {
			commit: all[90:], live: withRuntime("key"), pruning: Pruning{All: true}, pruned: 90,
		},
		"objects of a partial commit": {
			commit: all[:80], pruning: limits, added: keysOf(80, 100), pruned: 20,
		},
		"enrolled Kyma of a partial commit": {
			commit: without7, live: withRuntime("key"), pruning: limits, added: keysOf(7, 8), pruned: 1,
		},
		"Kyma of a partial commit with a published bundle": {commit: without7,
			live: func(live map[Key]*unstructured.Unstructured) {
				_ = unstructured.SetNestedMap(live[key("Kyma", "k007")].Object,
					map[string]any{"key": map[string]any{}, "published": map[string]any{}}, "status", "runtime")
			}, pruning: limits, added: keysOf(7, 8), held: "Kyma k007", pruned: 1},
		"Kyma of an air-gapped runtime": {commit: without7, live: func(live map[Key]*unstructured.Unstructured) {
			withRuntime("published")(live)
			annotate(live[key("Kyma", "k007")], v1beta2.AnnotationCarried, "true")
		}, pruning: limits, held: "Kyma k007", pruned: 1},
		"objects that are already deleted": {commit: all[50:], live: func(live map[Key]*unstructured.Unstructured) {
			for _, k := range keysOf(0, 50) {
				delete(live, k)
			}
		}, pruning: limits},
	} {
		t.Run(name, func(t *testing.T) {
			live, inventory := inForce(t, all...)
			if c.live != nil {
				c.live(live)
			}
			plan, err := newPlan(wanted(t, c.commit...), "c2", live, Inventory{inventory, c.added}, c.pruning)
			if err != nil || len(plan.Prune) != c.pruned {
				t.Fatalf("plan prunes %d objects, want %d: %v", len(plan.Prune), c.pruned, err)
			}
			if (plan.Held != nil) != (c.held != "") || plan.Held != nil &&
				!strings.Contains(plan.Held.Error(), c.held) {
				t.Errorf("got held %v, want %q", plan.Held, c.held)
			}
		})
	}
}

func keysOf(from, to int) (keys []Key) {
	for i := from; i < to; i++ {
		keys = append(keys, key("Kyma", fmt.Sprintf("k%03d", i)))
	}
	return keys
}

func annotate(object *unstructured.Unstructured, name, value string) {
	annotations := object.GetAnnotations()
	annotations[name] = value
	object.SetAnnotations(annotations)
}

func TestAnnotationPreventsPruning(t *testing.T) {
	live, inventory := inForce(t, template, a("one"), a("two"))
	annotate(live[key("Kyma", "two")], v1beta2.AnnotationPrune, v1beta2.PruneDisabled)
	plan, err := newPlan(wanted(t, a("one")), "c2", live, Inventory{Keys: inventory}, limits)
	if err != nil {
		t.Fatal(err)
	}
	if want := []Key{key("Kyma", "two")}; !reflect.DeepEqual(plan.Protected, want) || len(plan.Prune) != 1 ||
		plan.Prune[0] != key("ModuleTemplate", "keda-1.0.0") {
		t.Errorf("got protected objects %v and pruned objects %v, want Kyma two and keda-1.0.0",
			plan.Protected, plan.Prune)
	}
	// After the annotation is removed, a later commit prunes the object.
	annotate(live[key("Kyma", "two")], v1beta2.AnnotationPrune, "")
	plan, err = newPlan(wanted(t, a("one")), "c3", live, Inventory{Keys: plan.Inventory}, limits)
	if err != nil || len(plan.Prune) != 1 || plan.Prune[0] != key("Kyma", "two") {
		t.Errorf("without the annotation: got pruned objects %v and error %v, want Kyma two", plan.Prune, err)
	}
}

func TestPruningAMandatoryModuleNeedsPermission(t *testing.T) {
	mandatoryMeta := strings.Replace(releaseMeta, "channels: [{channel: regular, version: 1.0.0}]",
		"mandatory: {version: 1.0.0}", 1)
	mandatoryTemplate := strings.Replace(template, "version: 1.0.0", "version: 1.0.0, mandatory: true", 1)
	for name, c := range map[string]struct {
		document string
		added    []Key
		pruning  Pruning
		held     string
	}{
		"mandatory ModuleReleaseMeta": {
			mandatoryMeta, nil, limits,
			"would prune 1 objects of mandatory modules, which would be removed from every runtime: " +
				"ModuleReleaseMeta keda",
		},
		"mandatory ModuleTemplate":   {mandatoryTemplate, nil, limits, "ModuleTemplate keda-1.0.0"},
		"object of a partial commit": {mandatoryMeta, []Key{key("ModuleReleaseMeta", "keda")}, limits, ""},
		"permission for the commit":  {mandatoryMeta, nil, Pruning{Allowed: "c2"}, ""},
		"optional ModuleReleaseMeta": {releaseMeta, nil, limits, ""},
		"optional ModuleTemplate":    {template, nil, limits, ""},
	} {
		t.Run(name, func(t *testing.T) {
			live, inventory := inForce(t, c.document, a("one"))
			plan, err := newPlan(wanted(t, a("one")), "c2", live, Inventory{inventory, c.added}, c.pruning)
			if err != nil || len(plan.Prune) != 1 {
				t.Fatalf("got pruned objects %v and error %v, want 1", plan.Prune, err)
			}
			if (plan.Held != nil) != (c.held != "") || plan.Held != nil &&
				!strings.Contains(plan.Held.Error(), c.held) {
				t.Errorf("got held %v, want %q", plan.Held, c.held)
			}
		})
	}
}

func TestRevertingAPartialCommitKeepsExistingObjects(t *testing.T) {
	live, inventory := inForce(t, template, a("one"))
	theirs, _ := inForce(t, a("theirs"))
	live[key("Kyma", "theirs")] = theirs[key("Kyma", "theirs")]
	annotate(live[key("Kyma", "theirs")], v1beta2.AnnotationGitCommit, "")
	commit := wanted(t, template, a("one"), a("theirs"), a("new"))
	plan, err := newPlan(commit, "c2", live, Inventory{Keys: inventory}, limits)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := startFields(Survey{Plan: plan, Live: live, previous: Inventory{Keys: inventory}})
	if err != nil {
		t.Fatal(err)
	}
	noted, err := (&record{corev1.ConfigMap{Data: fields}}).inventory()
	if err != nil || !reflect.DeepEqual(noted.Added, []Key{key("Kyma", "new")}) ||
		slices.Contains(noted.Keys, key("Kyma", "theirs")) {
		t.Fatalf("got inventory %+v, error %v, want only the new object as added", noted, err)
	}
	for _, w := range plan.Apply {
		live[KeyOf(&w.Object)] = &w.Object
	}
	back, err := newPlan(wanted(t, template, a("one")), "c1", live, noted, limits)
	if err != nil || back.Held != nil {
		t.Fatalf("revert: got held %v and error %v, want none", back.Held, err)
	}
	if !reflect.DeepEqual(back.Prune, []Key{key("Kyma", "new")}) ||
		!reflect.DeepEqual(back.Disown, []Key{key("Kyma", "theirs")}) || back.isEmpty() {
		t.Errorf("revert: got pruned objects %v and disowned objects %v, want Kyma new and Kyma theirs",
			back.Prune, back.Disown)
	}
	annotations := live[key("Kyma", "theirs")].GetAnnotations()
	delete(annotations, v1beta2.AnnotationGitCommit)
	live[key("Kyma", "theirs")].SetAnnotations(annotations)
	delete(live, key("Kyma", "new"))
	if done, err := newPlan(wanted(t, template, a("one")), "c1", live, noted, limits); err != nil || !done.isEmpty() ||
		len(done.Disown) > 0 {
		t.Errorf("reverted commit: got plan %+v and error %v, want no changes", done, err)
	}
}
