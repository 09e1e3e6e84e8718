package inventory

import (
	"reflect"
	"testing"
)

func TestCompareListsRuntimesWithAddedOrRemovedImage(t *testing.T) {
	old, later := Module{"keda", "1.0.0"}, Module{"keda", "2.0.0"}
	contents := map[Module]Content{
		old: {Images: []string{"lab/keda:1", "lab/helper:1"}}, later: {Images: []string{"lab/keda:2", "lab/helper:1"}},
	}
	runtime := func(id string, modules ...Module) Runtime {
		return Runtime{ID: id, Reported: noon, Modules: modules}
	}
	before := New([]Runtime{runtime("a", old), runtime("b", old), runtime("gone", old)}, contents)
	after := New([]Runtime{runtime("b", later), runtime("a", old), runtime("c", later)}, contents)
	want := []Change{
		{Reference: "lab/helper:1", Module: old, Removed: []string{"b", "gone"}},
		{Reference: "lab/helper:1", Module: later, Added: []string{"b", "c"}},
		{Reference: "lab/keda:1", Module: old, Removed: []string{"b", "gone"}},
		{Reference: "lab/keda:2", Module: later, Added: []string{"b", "c"}},
	}
	if got := Compare(before, after); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := Compare(after, after); len(got) != 0 {
		t.Errorf("comparing an inventory with itself: got %+v, want no changes", got)
	}
}

func TestUnknownVersionsOfSeveralInventoriesAreListedOnce(t *testing.T) {
	a, b := Unknown{Module: Module{"a", "1"}, Problem: "gone"}, Unknown{Module: Module{"b", "1"}, Problem: "gone"}
	got := MergeUnknown(Fleet{Unknown: []Unknown{b}}, Fleet{Unknown: []Unknown{a, b}})
	if !reflect.DeepEqual(got, []Unknown{a, b}) {
		t.Errorf("got %+v, want %+v", got, []Unknown{a, b})
	}
}
