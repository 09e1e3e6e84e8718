// Package planning decides which objects of a module are applied, pruned, recreated and removed, and in which order.
//
// Its input is Manifests, rendered objects, and the kinds that the API server serves. Its output is a Plan, or the
// problem that prevents it. It sends no requests.
package planning

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// scopes reports whether a kind is namespaced.
type scopes func(schema.GroupVersionKind) (namespaced bool, err error)

// Make returns the objects to apply and to prune, in order. It modifies the given objects: it sets namespaces and
// the labels and annotations of the owner, and removes fields that server-side apply refuses. inventory is the
// Manifest's current inventory.
func Make(
	rendered []*unstructured.Unstructured, defaultCR *unstructured.Unstructured, inventory []v1beta2.Resource,
	owner object.Owner, served scopes,
) (Plan, error) {
	scope, unserved := withDefinitions(served, rendered)
	mk := maker{
		plan: Plan{unserved: unserved}, owner: owner, scope: scope, seen: object.Keys{}, stay: object.Keys{},
	}
	for _, o := range rendered {
		if err := mk.add(o); err != nil {
			return Plan{}, err
		}
	}
	if defaultCR != nil {
		if err := mk.addDefaultCR(defaultCR.DeepCopy()); err != nil {
			return Plan{}, err
		}
	}
	return mk.finish(inventory), nil
}

// maker collects the objects of a plan.
type maker struct {
	plan  Plan
	owner object.Owner
	scope scopes
	seen  object.Keys // objects of the content
	stay  object.Keys // objects that must not be pruned
}

// add adds an object of the content to its stage. It leaves out an object of an unknown kind.
func (mk *maker) add(o *unstructured.Unstructured) error {
	if err := render.CheckInstallable(o.GroupVersionKind()); err != nil {
		mk.leaveOut(o, "", err)
		return nil
	}
	mk.plan.Ignored = append(mk.plan.Ignored, render.UnknownFields(o)...)
	if err := normalized(o); err != nil {
		return err
	}
	namespaced, err := mk.scope(o.GroupVersionKind())
	if errors.Is(err, object.ErrUnknownKind) {
		mk.leaveOut(o, "", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s (%s): %w", guard.KeyOf(o), o.GetAPIVersion(), err)
	}
	render.Place(o, namespaced, mk.owner.Namespace)
	k := guard.KeyOf(o)
	if mk.seen.Has(k) {
		return fmt.Errorf("%s is in the content twice, with and without a namespace: remove one of them", k)
	}
	mk.seen[k] = struct{}{}
	if guard.IsSharedNamespace(k, mk.owner.Namespace) {
		mk.plan.Shared = append(mk.plan.Shared, o)
		return nil
	}
	if err := dropForeignFields(o); err != nil {
		return err
	}
	utils.RemoveCABundleFromCRD(o)
	mark(o, mk.owner)
	stage := stageOf(o)
	mk.plan.Stages[stage] = append(mk.plan.Stages[stage], o)
	mk.plan.Inventory = append(mk.plan.Inventory, object.ResourceOf(o))
	return nil
}

// addDefaultCR adds the default CR, unless its kind is unknown or the content also contains it.
func (mk *maker) addDefaultCR(o *unstructured.Unstructured) error {
	namespaced, err := mk.scope(o.GroupVersionKind())
	switch render.Place(o, namespaced || err != nil, mk.owner.Namespace); {
	case errors.Is(err, object.ErrUnknownKind):
		mk.leaveOut(o, "default CR ", err)
	case err != nil:
		return fmt.Errorf("default CR %s (%s): %w", guard.KeyOf(o), o.GetAPIVersion(), err)
	case !mk.seen.Has(guard.KeyOf(o)):
		mark(o, mk.owner)
		mk.plan.DefaultCR = o
	}
	return nil
}

// finish sorts the objects of each stage and adds the objects to prune.
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

// normalized converts an object of a built-in kind to the form in which the API server stores it. It skips custom
// resources, because the library panics for a custom resource whose kind is Status.
func normalized(o *unstructured.Unstructured) error {
	if !scheme.Scheme.Recognizes(o.GroupVersionKind()) {
		return nil
	}
	// normalize.Unstructured is not usable, because it would empty the rules of roles.
	return normalize.UnstructuredList([]*unstructured.Unstructured{o})
}

// leaveOut records an object whose kind the API server does not serve or store, so that the object is neither applied
// nor pruned. role is the prefix of the object in messages.
func (mk *maker) leaveOut(o *unstructured.Unstructured, role string, reason error) {
	k := guard.KeyOf(o)
	mk.plan.Unknown = append(mk.plan.Unknown, fmt.Sprintf("%s%s (%s): %s", role, k, o.GetAPIVersion(), reason))
	mk.stay[k] = struct{}{}
	k.Namespace = cmp.Or(k.Namespace, mk.owner.Namespace)
	mk.stay[k] = struct{}{}
	k.Namespace = ""
	mk.stay[k] = struct{}{}
}

// withDefinitions returns a function that reports the scope of a kind, from the API server or from a CRD in the
// module's content. If both define the kind, the API server's scope counts. unserved contains the kinds that only the
// content defines.
func withDefinitions(
	served scopes, rendered []*unstructured.Unstructured,
) (withContent scopes, unserved map[schema.GroupKind]bool) {
	defined := map[schema.GroupVersionKind]bool{}
	for _, o := range rendered {
		if !utils.IsCRD(o) {
			continue
		}
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		scope, _, _ := unstructured.NestedString(o.Object, "spec", "scope")
		versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		for _, v := range versions {
			version, _ := v.(map[string]any)
			if name, ok := version["name"].(string); ok && version["served"] == true {
				defined[schema.GroupVersionKind{Group: group, Version: name, Kind: kind}] = scope == "Namespaced"
			}
		}
	}
	unserved = map[schema.GroupKind]bool{}
	return func(gvk schema.GroupVersionKind) (bool, error) {
		namespaced, ok := defined[gvk]
		if !ok {
			return served(gvk)
		}
		kind := gvk.GroupKind()
		if unserved[kind] { // avoid another lookup, which sends discovery requests
			return namespaced, nil
		}
		// Look the kind up with its version. A lookup without a version uses a cache, which can be outdated.
		live, err := served(gvk)
		if errors.Is(err, object.ErrUnknownKind) {
			live, err = served(kind.WithVersion(""))
		}
		if errors.Is(err, object.ErrUnknownKind) {
			unserved[kind] = true
			return namespaced, nil
		}
		return live, err
	}, unserved
}

// mark sets the labels and annotations that identify the owner of an object.
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
