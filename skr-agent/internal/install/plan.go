package install

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
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// scopes reports whether a kind is namespaced.
type scopes func(schema.GroupVersionKind) (namespaced bool, err error)

// plan contains the objects to apply and to delete for a Manifest.
type plan struct {
	// shared contains namespaces that the module does not own. They get the module's labels and are never in its
	// inventory.
	shared []*unstructured.Unstructured
	// stages contains the objects to apply, in order: first CRDs, namespaces and cluster roles; then classes; then
	// other built-in kinds; then custom resources. Custom resources are last, because an earlier stage can contain
	// their webhooks.
	stages [4][]*unstructured.Unstructured
	// unserved contains the kinds of the content's CRDs that the API server does not serve yet.
	unserved map[schema.GroupKind]bool
	// inventory contains all objects of the stages. prune contains the objects to delete, in the order of deletion.
	inventory []v1beta2.Resource
	prune     []v1beta2.Resource
	// recreate contains objects to delete before the apply, because their immutable fields change.
	recreate []v1beta2.Resource
	// defaultCR is created once and not changed afterwards. Nil if the module has no default CR.
	defaultCR *unstructured.Unstructured
	// resources and images are the results of planning for the Manifest's conditions Resources and Images.
	resources, images outcome.Finding
	// takes contains the objects that this module takes over from other Manifests. The value is the other Manifest, as
	// in the annotation owned-by.
	takes map[guard.Key]string
	// unknown contains objects whose kind the API server does not serve or store. They are neither applied nor pruned.
	unknown []string
	// ignored contains the unknown fields of built-in kinds. They are not applied.
	ignored []string
	// unread contains custom resources that the API server could not read, with the error. They are applied later.
	unread map[guard.Key]string
	// unlabeled is the key of the agent's namespace if the module's content contains this namespace but sets no labels
	// on it. The agent then does not apply the namespace.
	unlabeled guard.Key
	// absent contains objects that did not exist when the plan was checked.
	absent object.Keys
	// refused is the problem of the objects that the API server refused during a first installation.
	refused *outcome.Finding
}

// work returns the objects for which the module's account needs permissions.
func (p *plan) work() guard.Work {
	work := guard.Work{Shared: p.shared, Applied: slices.Concat(p.stages[:]...), DefaultCR: p.defaultCR}
	for _, r := range p.prune {
		work.Pruned = append(work.Pruned, guard.PrunedObject{
			GroupVersionKind: object.GVKOf(r), Namespace: r.Namespace, Name: r.Name,
		})
	}
	return work
}

// keepOnly reduces the plan to the changed objects and the default CR.
func (p *plan) keepOnly(changed object.Keys) {
	p.shared, p.prune = nil, nil
	for i, stage := range p.stages {
		p.stages[i] = slices.DeleteFunc(stage, func(o *unstructured.Unstructured) bool {
			return !changed.Has(guard.KeyOf(o))
		})
	}
}

// all returns all objects that the plan can write.
func (p *plan) all() []*unstructured.Unstructured {
	all := slices.Concat(p.shared, slices.Concat(p.stages[:]...))
	if p.defaultCR != nil {
		all = append(all, p.defaultCR)
	}
	return all
}

// makePlan returns the objects to apply and to prune, in order. It modifies the given objects: it sets namespaces and
// the labels and annotations of the owner, and removes fields that server-side apply refuses.
func makePlan(
	rendered []*unstructured.Unstructured, defaultCR *unstructured.Unstructured, before []v1beta2.Resource,
	by guard.Owner, served scopes,
) (plan, error) {
	scope, unserved := withDefinitions(served, rendered)
	p := plan{unserved: unserved}
	seen, stay := object.Keys{}, object.Keys{}
	for _, o := range rendered {
		if err := render.CheckInstallable(o.GroupVersionKind()); err != nil {
			p.leaveOut(o, "", err, by, stay)
			continue
		}
		p.ignored = append(p.ignored, render.UnknownFields(o)...)
		if err := normalized(o); err != nil {
			return plan{}, err
		}
		namespaced, err := scope(o.GroupVersionKind())
		if errors.Is(err, object.ErrUnknownKind) {
			p.leaveOut(o, "", err, by, stay)
			continue
		}
		if err != nil {
			return plan{}, fmt.Errorf("%s (%s): %w", guard.KeyOf(o), o.GetAPIVersion(), err)
		}
		place(o, namespaced, by.Namespace)
		k := guard.KeyOf(o)
		if seen.Has(k) {
			return plan{}, fmt.Errorf("%s is in the content twice, with and without a namespace: remove one of them", k)
		}
		seen[k] = struct{}{}
		if guard.IsShared(k, by.Namespace) {
			p.shared = append(p.shared, o)
			continue
		}
		if err := dropForeignFields(o); err != nil {
			return plan{}, err
		}
		utils.RemoveCABundleFromCRD(o)
		mark(o, by)
		stage := stageOf(o)
		p.stages[stage] = append(p.stages[stage], o)
		p.inventory = append(p.inventory, object.ResourceOf(o))
	}
	if defaultCR != nil {
		p.defaultCR = defaultCR.DeepCopy()
		namespaced, err := scope(p.defaultCR.GroupVersionKind())
		switch place(p.defaultCR, namespaced || err != nil, by.Namespace); {
		case errors.Is(err, object.ErrUnknownKind):
			p.leaveOut(p.defaultCR, "default CR ", err, by, stay)
			p.defaultCR = nil
		case err != nil:
			return plan{},
				fmt.Errorf("default CR %s (%s): %w", guard.KeyOf(p.defaultCR), p.defaultCR.GetAPIVersion(), err)
		case seen.Has(guard.KeyOf(p.defaultCR)):
			p.defaultCR = nil // the module's content also contains this object
		default:
			mark(p.defaultCR, by)
		}
	}
	for _, stage := range p.stages {
		sortForApply(stage)
	}
	p.inventory = object.Union(p.inventory, nil)
	maps.Copy(stay, object.KeysOf(p.inventory))
	if p.defaultCR != nil {
		stay[guard.KeyOf(p.defaultCR)] = struct{}{}
	}
	p.prune = slices.Concat(removalStages(object.Without(before, stay))...)
	return p, nil
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
// nor pruned.
func (p *plan) leaveOut(o *unstructured.Unstructured, role string, why error, by guard.Owner, stay object.Keys) {
	k := guard.KeyOf(o)
	p.unknown = append(p.unknown, fmt.Sprintf("%s%s (%s): %s", role, k, o.GetAPIVersion(), why))
	stay[k] = struct{}{}
	k.Namespace = cmp.Or(k.Namespace, by.Namespace)
	stay[k] = struct{}{}
	k.Namespace = ""
	stay[k] = struct{}{}
}

// withDefinitions returns a function that reports the scope of served kinds and of kinds that CRDs in the content
// define. The API server's answer takes precedence over the content. unserved contains the kinds that only the content
// defines.
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
		// A lookup with a version asks the API server. A lookup without a version uses a cache, which can be outdated.
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

func place(o *unstructured.Unstructured, namespaced bool, fallback string) {
	switch {
	case !namespaced:
		o.SetNamespace("")
	case o.GetNamespace() == "":
		o.SetNamespace(fallback)
	}
}

// mark sets the labels and annotations that identify the owner of an object.
func mark(o *unstructured.Unstructured, by guard.Owner) {
	labels, annotations := by.Marks()
	utils.SetCommonMetadata([]*unstructured.Unstructured{o}, labels, annotations)
}

func stageOf(o *unstructured.Unstructured) int {
	switch {
	case utils.IsClusterDefinition(o):
		return 0
	case utils.IsClassDefinition(o):
		return 1
	case guard.IsCustom(o.GroupVersionKind().Group):
		return 3
	}
	return 2
}

// claimedByOther returns a conflict if another Manifest owns an object of the plan. If both Manifests have the object
// in their inventories, the older Manifest owns it. takes contains the objects that other Manifests do not need
// anymore.
func claimedByOther(
	m *v1beta2.Manifest, p plan, others []*v1beta2.Manifest, defaultCR func(*v1beta2.Manifest) (v1beta2.Resource, bool),
	givesUp func(*v1beta2.Manifest, guard.Key) (bool, error),
) (takes map[guard.Key]string, conflict string, err error) {
	mine, want, own := object.KeysOf(m.Status.Synced), object.KeysOf(p.inventory), object.Keys{}
	if p.defaultCR != nil {
		own[guard.KeyOf(p.defaultCR)] = struct{}{}
	}
	takes = map[guard.Key]string{}
	for _, other := range others {
		taken := func(k guard.Key) string {
			if record.ClaimsRemoval(other) {
				return fmt.Sprintf("%s belongs to module %s, which is being removed: wait for its removal", k,
					other.Module())
			}
			return fmt.Sprintf("%s belongs to module %s already: remove it from one of the two modules", k,
				other.Module())
		}
		for _, r := range other.Status.Synced {
			k := object.KeyOf(r)
			if !want.Has(k) && !own.Has(k) {
				continue
			}
			if givenUp, err := givesUp(other, k); err != nil {
				return nil, "", err
			} else if givenUp && want.Has(k) {
				takes[k] = other.Namespace + "/" + other.Name
				continue
			}
			if want.Has(k) && (!mine.Has(k) || older(other, m)) || own.Has(k) {
				return nil, taken(k), nil
			}
		}
		if r, ok := defaultCR(other); ok && want.Has(object.KeyOf(r)) && !mine.Has(object.KeyOf(r)) {
			return nil, taken(object.KeyOf(r)), nil
		}
	}
	return takes, "", nil
}

func older(a, b *v1beta2.Manifest) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// removalStages returns the objects in stages for the removal. All objects of a stage must be deleted before the next
// stage: webhooks; custom resources, whose finalizers need the operator; workloads and other objects; CRDs; RBAC;
// namespaces.
func removalStages(inventory []v1beta2.Resource) [][]v1beta2.Resource {
	stages := make([][]v1beta2.Resource, 6)
	for _, r := range inventory {
		i := removalStage(r)
		stages[i] = append(stages[i], r)
	}
	return slices.DeleteFunc(stages, func(s []v1beta2.Resource) bool { return len(s) == 0 })
}

func removalStage(r v1beta2.Resource) int {
	gk := schema.GroupKind{Group: r.Group, Kind: r.Kind}
	switch {
	case guard.IsCRD(gk):
		return 3
	case guard.IsNamespace(gk):
		return 5
	case r.Group == "admissionregistration.k8s.io":
		return 0
	case r.Group == "rbac.authorization.k8s.io", gk == schema.GroupKind{Kind: "ServiceAccount"}:
		return 4
	case guard.IsCustom(r.Group):
		return 1
	}
	return 2
}

// isUndefined reports whether an object cannot exist yet, because its CRD is part of the plan and the API server does
// not serve the kind. It records such an object as absent.
func (p *plan) isUndefined(o *unstructured.Unstructured) bool {
	gvk := o.GroupVersionKind()
	if !p.unserved[gvk.GroupKind()] {
		return false
	}
	for _, definition := range p.stages[0] {
		if !p.absent.Has(guard.KeyOf(definition)) || !guard.IsCRD(definition.GroupVersionKind().GroupKind()) {
			continue
		}
		if served := guard.ServedKind(definition); served.Group == gvk.Group && served.Kind == gvk.Kind {
			p.absent[guard.KeyOf(o)] = struct{}{}
			return true
		}
	}
	return false
}
