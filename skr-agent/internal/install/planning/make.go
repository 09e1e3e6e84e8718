// Package planning decides which of a module's objects are applied, pruned, recreated and removed, and in which order.
//
// Its input is Manifests, rendered objects, and the kinds that the API server serves. Its output is a Plan, or the
// problem that prevents it. It does not send requests.
package planning

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// Make checks a module's content and returns the objects to apply and to prune, in order. It modifies the objects in
// place, as content.Check does, and also sets the owner's labels and annotations. inventory is the Manifest's current
// inventory.
func Make(in content.Input, inventory []v1beta2.Resource, owner object.Owner) (Plan, error) {
	checked, err := content.Check(in)
	if err != nil {
		return Plan{}, err
	}
	mk := maker{
		plan: Plan{unserved: checked.Unserved, Ignored: checked.Ignored}, owner: owner, stay: object.Keys{},
	}
	for _, o := range checked.Objects {
		mk.add(o)
	}
	for _, left := range checked.LeftOut {
		mk.leaveOut(left)
	}
	if checked.DefaultCR != nil {
		mark(checked.DefaultCR, owner)
		mk.plan.DefaultCR = checked.DefaultCR
	}
	return mk.finish(inventory), nil
}

// maker collects a plan's objects.
type maker struct {
	plan  Plan
	owner object.Owner
	stay  object.Keys // objects that must not be pruned
}

// add adds an object from the content to its stage.
func (mk *maker) add(o *unstructured.Unstructured) {
	if guard.IsSharedNamespace(guard.KeyOf(o), mk.owner.Namespace) {
		mk.plan.Shared = append(mk.plan.Shared, o)
		return
	}
	mark(o, mk.owner)
	mk.plan.addMove(o)
	stage := stageOf(o)
	mk.plan.Stages[stage] = append(mk.plan.Stages[stage], o)
	mk.plan.Inventory = append(mk.plan.Inventory, object.ResourceOf(o))
}

// finish sorts each stage's objects and adds the objects to prune.
func (mk *maker) finish(inventory []v1beta2.Resource) Plan {
	p := mk.plan
	for _, stage := range p.Stages {
		sortForApply(stage)
	}
	p.Inventory = object.Union(p.Inventory, nil)
	maps.Copy(mk.stay, object.KeysOf(p.Inventory))
	if p.DefaultCR != nil {
		mk.stay[guard.KeyOf(p.DefaultCR)] = struct{}{}
	}
	p.Prune = slices.Concat(RemovalStages(object.Without(inventory, mk.stay))...)
	return p
}

// leaveOut records an object that is neither applied nor pruned.
func (mk *maker) leaveOut(left content.LeftOut) {
	k, role := guard.KeyOf(left.Object), ""
	if left.IsDefaultCR {
		role = "default CR "
	}
	mk.plan.Unknown = append(mk.plan.Unknown,
		fmt.Sprintf("%s%s (%s): %s", role, k, left.Object.GetAPIVersion(), left.Reason))
	mk.stay[k] = struct{}{}
	k.Namespace = cmp.Or(k.Namespace, mk.owner.Namespace)
	mk.stay[k] = struct{}{}
	k.Namespace = ""
	mk.stay[k] = struct{}{}
}

// mark sets the labels and annotations that identify an object's owner.
func mark(o *unstructured.Unstructured, by object.Owner) {
	labels, annotations := by.Marks()
	utils.SetCommonMetadata([]*unstructured.Unstructured{o}, labels, annotations)
}

func stageOf(o *unstructured.Unstructured) int {
	switch {
	case utils.IsClusterDefinition(o):
		return 0
	case utils.IsClassDefinition(o):
		return 1
	case guard.IsCustomGroup(o.GroupVersionKind().Group):
		return 3
	}
	return 2
}
