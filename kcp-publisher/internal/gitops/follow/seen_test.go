package follow

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestHoldLastsUntilTheCacheContainsTheWholeCommit(t *testing.T) {
	live, inventory := inForce(t, template, releaseMeta, a("one"))
	older, _ := inForce(t, template, strings.Replace(releaseMeta, "1.0.0", "0.9.0", 1), a("one"), a("two"))
	plan, err := newPlan(wanted(t, template, releaseMeta, a("one")), "c2", live,
		Inventory{Keys: append(inventory, key("Kyma", "two"))}, limits)
	if err != nil || !plan.isEmpty() {
		t.Fatal(plan, err)
	}
	s := Survey{Plan: plan, Live: live, previous: Inventory{Keys: append(inventory, key("Kyma", "two"))}}
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(map[Key]metav1.Object)
		want   []Key
	}{
		"complete cache": {func(map[Key]metav1.Object) {}, nil},
		"missing object": {
			func(c map[Key]metav1.Object) {
				delete(c, key("ModuleTemplate", "keda-1.0.0"))
			}, []Key{key("ModuleTemplate", "keda-1.0.0")},
		},
		"outdated object": {func(c map[Key]metav1.Object) {
			c[key("ModuleReleaseMeta", "keda")] = older[key("ModuleReleaseMeta", "keda")]
		}, []Key{key("ModuleReleaseMeta", "keda")}},
		"pruned object still in the cache": {
			func(c map[Key]metav1.Object) {
				c[key("Kyma", "two")] = older[key("Kyma", "two")]
			}, []Key{key("Kyma", "two")},
		},
		"object without a commit": {
			func(c map[Key]metav1.Object) { c[key("Kyma", "three")] = older[key("Kyma", "two")] }, nil,
		},
		"pruned object with a finalizer": {func(c map[Key]metav1.Object) {
			leaving := older[key("Kyma", "two")].DeepCopy()
			leaving.SetDeletionTimestamp(&now)
			c[key("Kyma", "two")] = leaving
		}, nil},
	} {
		cached := map[Key]metav1.Object{}
		for key, object := range live {
			cached[key] = object
		}
		c.change(cached)
		if got := outdatedInCache(s, cached); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got missing objects %v, want %v", name, got, c.want)
		}
	}
}

func TestCacheIsReadForEveryKindInACommit(t *testing.T) {
	all := newLists()
	for _, kind := range kindOrder {
		group := v1beta2.Group
		if kind == "RolloutPolicy" || kind == "PromotionPolicy" {
			group = "fleet.kyma-project.io"
		}
		k := key(kind, "x").Kind
		k.Group = group
		if all[k] == nil {
			t.Errorf("the cache is not read for kind %s", k)
		}
	}
}

func TestKymaDifferencesDoNotHoldPublishing(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(Survey)
		half   bool
	}{
		"no difference":                  {func(Survey) {}, false},
		"Kyma changed by another client": {func(s Survey) { s.Live[key("Kyma", "one")].SetManagedFields(nil) }, false},
		"deleted Kyma": {
			func(s Survey) { s.Live[key("Kyma", "one")].SetDeletionTimestamp(&now) }, false,
		},
		"missing ModuleTemplate": {
			func(s Survey) { delete(s.Live, key("ModuleTemplate", "keda-1.0.0")) }, true,
		},
		"deleted ModuleReleaseMeta": {
			func(s Survey) { s.Live[key("ModuleReleaseMeta", "keda")].SetDeletionTimestamp(&now) }, true,
		},
	} {
		live, inventory := inForce(t, template, releaseMeta, a("one"))
		c.change(Survey{Live: live})
		plan, err := newPlan(wanted(t, template, releaseMeta, a("one")), "c2", live, Inventory{Keys: inventory}, limits)
		if err != nil || plan.sharedObjectsDiffer() != c.half {
			t.Errorf("%s: got half %t, error %v, want %t", name, plan.sharedObjectsDiffer(), err, c.half)
		}
	}
}
