package follow

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestHoldLastsUntilTheCacheHasTheWholeCommit(t *testing.T) {
	live, inventory := inForce(t, template, releaseMeta, a("one"))
	older, _ := inForce(t, template, strings.Replace(releaseMeta, "1.0.0", "0.9.0", 1), a("one"), a("two"))
	plan, err := NewPlan(wanted(t, template, releaseMeta, a("one")), "c2", live,
		Inventory{Keys: append(inventory, key("Kyma", "two"))}, limits)
	if err != nil || !plan.equal() {
		t.Fatal(plan, err)
	}
	s := Survey{Plan: plan, Live: live, before: Inventory{Keys: append(inventory, key("Kyma", "two"))}}
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(map[Key]metav1.Object)
		want   []Key
	}{
		"it has all of it": {func(map[Key]metav1.Object) {}, nil},
		"one is not there": {
			func(c map[Key]metav1.Object) {
				delete(c, key("ModuleTemplate", "keda-1.0.0"))
			}, []Key{key("ModuleTemplate", "keda-1.0.0")},
		},
		"one is as it was": {func(c map[Key]metav1.Object) {
			c[key("ModuleReleaseMeta", "keda")] = older[key("ModuleReleaseMeta", "keda")]
		}, []Key{key("ModuleReleaseMeta", "keda")}},
		"a pruned one is there": {
			func(c map[Key]metav1.Object) {
				c[key("Kyma", "two")] = older[key("Kyma", "two")]
			}, []Key{key("Kyma", "two")},
		},
		"what nobody brought": {
			func(c map[Key]metav1.Object) { c[key("Kyma", "three")] = older[key("Kyma", "two")] }, nil,
		},
		"a pruned one is finalized": {func(c map[Key]metav1.Object) {
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
		if got := unseen(s, cached); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestCacheIsReadForEveryKindOfACommit(t *testing.T) {
	all := lists()
	for _, kind := range kinds {
		group := v1beta2.Group
		if kind == "RolloutPolicy" || kind == "PromotionPolicy" {
			group = "fleet.kyma-project.io"
		}
		k := key(kind, "x").Kind
		k.Group = group
		if all[k] == nil {
			t.Errorf("%s is not", k)
		}
	}
}

func TestOnlyKymasOfOtherWritersDoNotHoldACommit(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(Survey)
		half   bool
	}{
		"nothing differs":             {func(Survey) {}, false},
		"a Kyma is written by others": {func(s Survey) { s.Live[key("Kyma", "one")].SetManagedFields(nil) }, false},
		"a Kyma is deleted": {
			func(s Survey) { s.Live[key("Kyma", "one")].SetDeletionTimestamp(&now) }, false,
		},
		"a ModuleTemplate is not there": {
			func(s Survey) { delete(s.Live, key("ModuleTemplate", "keda-1.0.0")) }, true,
		},
		"a ModuleReleaseMeta is deleted": {
			func(s Survey) { s.Live[key("ModuleReleaseMeta", "keda")].SetDeletionTimestamp(&now) }, true,
		},
	} {
		live, inventory := inForce(t, template, releaseMeta, a("one"))
		c.change(Survey{Live: live})
		plan, err := NewPlan(wanted(t, template, releaseMeta, a("one")), "c2", live, Inventory{Keys: inventory}, limits)
		if err != nil || plan.isHalf() != c.half {
			t.Errorf("%s: half %t, %v", name, plan.isHalf(), err)
		}
	}
}
