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

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
)

// errUnknownKind is the error of a scopes function for a kind that the API server does not serve.
var errUnknownKind = errors.New("the cluster does not know this kind")

// scopes reports whether objects of a kind live in namespaces.
type scopes func(schema.GroupVersionKind) (namespaced bool, err error)

// plan is the result of planning the apply of a Manifest.
type plan struct {
	// shared are namespaces that the cluster needs even without the module. They get the module's labels and are never
	// in its inventory.
	shared []*unstructured.Unstructured
	// stages are applied in order: definitions of kinds, namespaces and roles; classes; the other kinds of Kubernetes;
	// custom resources, whose webhooks may be part of an earlier stage.
	stages [4][]*unstructured.Unstructured
	// inventory is the inventory of the applied plan. prune are the other objects of the old inventory, in the order of
	// deletion.
	inventory []v1beta2.Resource
	prune     []v1beta2.Resource
	// recreate are objects to delete first, because their changes are to immutable fields.
	recreate []v1beta2.Resource
	// defaultCR is created if it is missing, and belongs to its user afterwards. It is nil without one.
	defaultCR *unstructured.Unstructured
	// resources and images describe the content.
	resources, images finding
	// takes are objects that other Manifests have and no longer request, with the mark of each Manifest.
	takes map[key]string
	// unknown are objects whose kind the API server does not serve. They are neither applied nor pruned.
	unknown []string
	// unread are custom resources whose owner the API server could not read, with the error. They are applied later.
	unread map[key]string
	// unlabeled is the agent's namespace if the plan has it without labels and it has none of the module's. It needs no
	// apply.
	unlabeled key
	// absent are objects that did not exist when the plan was checked. They are created without another read.
	absent keys
	// refused is the problem of objects of a first installation that the API server refuses. The others are applied.
	refused *finding
}

// work returns the objects that an account needs rights for.
func (p *plan) work() guard.Work {
	work := guard.Work{Shared: p.shared, Applied: slices.Concat(p.stages[:]...), DefaultCR: p.defaultCR}
	for _, r := range p.prune {
		work.Pruned = append(work.Pruned, guard.PrunedObject{
			GroupVersionKind: gvkOf(r), Namespace: r.Namespace, Name: r.Name,
		})
	}
	return work
}

// keepOnly narrows the plan to objects that changed. The default CR stays: it is only ever created.
func (p *plan) keepOnly(changed keys) {
	p.shared, p.prune = nil, nil
	for i, stage := range p.stages {
		p.stages[i] = slices.DeleteFunc(stage, func(o *unstructured.Unstructured) bool {
			return !changed.has(guard.KeyOf(o))
		})
	}
}

// all returns every object that the plan may write.
func (p *plan) all() []*unstructured.Unstructured {
	all := slices.Concat(p.shared, slices.Concat(p.stages[:]...))
	if p.defaultCR != nil {
		all = append(all, p.defaultCR)
	}
	return all
}

func resourcesOf(objects []*unstructured.Unstructured) []v1beta2.Resource {
	resources := make([]v1beta2.Resource, len(objects))
	for i, o := range objects {
		resources[i] = resourceOf(o)
	}
	return resources
}

// makePlan returns the objects to apply in order, and the objects to prune. It changes the given objects: they get
// their namespace and their owner's marks, and lose fields that server-side apply refuses.
func makePlan(
	rendered []*unstructured.Unstructured, defaultCR *unstructured.Unstructured, before []v1beta2.Resource,
	by guard.Owner, served scopes,
) (plan, error) {
	scope := withDefinitions(served, rendered)
	if err := normalize.UnstructuredList(rendered); err != nil {
		return plan{}, err
	}
	var p plan
	seen, stay := keys{}, keys{}
	for _, o := range rendered {
		namespaced, err := scope(o.GroupVersionKind())
		if errors.Is(err, errUnknownKind) {
			p.leaveOut(o, "", by, stay)
			continue
		}
		if err != nil {
			return plan{}, fmt.Errorf("%s (%s): %w", guard.KeyOf(o), o.GetAPIVersion(), err)
		}
		place(o, namespaced, by.Namespace)
		k := guard.KeyOf(o)
		if seen.has(k) {
			return plan{}, fmt.Errorf("%s: is in the content twice, with its namespace and without: remove one", k)
		}
		seen[k] = struct{}{}
		if guard.IsShared(k, by.Namespace) {
			p.shared = append(p.shared, o)
			continue
		}
		if err := leaveToOthers(o); err != nil {
			return plan{}, err
		}
		utils.RemoveCABundleFromCRD(o)
		mark(o, by)
		stage := stageOf(o)
		p.stages[stage] = append(p.stages[stage], o)
		p.inventory = append(p.inventory, resourceOf(o))
	}
	if defaultCR != nil {
		p.defaultCR = defaultCR.DeepCopy()
		namespaced, err := scope(p.defaultCR.GroupVersionKind())
		switch place(p.defaultCR, namespaced || err != nil, by.Namespace); {
		case errors.Is(err, errUnknownKind):
			p.leaveOut(p.defaultCR, "default CR ", by, stay)
			p.defaultCR = nil
		case err != nil:
			return plan{},
				fmt.Errorf("default CR %s (%s): %w", guard.KeyOf(p.defaultCR), p.defaultCR.GetAPIVersion(), err)
		case seen.has(guard.KeyOf(p.defaultCR)):
			p.defaultCR = nil // the content has it too, and then it is an object like any other
		default:
			mark(p.defaultCR, by)
		}
	}
	for _, stage := range p.stages {
		sortForApply(stage)
	}
	p.inventory = union(p.inventory, nil)
	maps.Copy(stay, keysOf(p.inventory))
	if p.defaultCR != nil {
		stay[guard.KeyOf(p.defaultCR)] = struct{}{}
	}
	p.prune = slices.Concat(removalStages(without(before, stay))...)
	return p, nil
}

// leaveOut notes an object whose kind the API server does not serve. It stays in the inventory if it is there: whether
// its kind has namespaces is unknown.
func (p *plan) leaveOut(o *unstructured.Unstructured, role string, by guard.Owner, stay keys) {
	k := guard.KeyOf(o)
	p.unknown = append(p.unknown, fmt.Sprintf("%s%s (%s): %s", role, k, o.GetAPIVersion(), errUnknownKind))
	stay[k] = struct{}{}
	k.Namespace = cmp.Or(k.Namespace, by.Namespace)
	stay[k] = struct{}{}
	k.Namespace = ""
	stay[k] = struct{}{}
}

// withDefinitions adds the kinds that the content defines. A defined kind wins over a served one, because the
// definition may add a version.
func withDefinitions(served scopes, rendered []*unstructured.Unstructured) scopes {
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
	return func(gvk schema.GroupVersionKind) (bool, error) {
		if namespaced, ok := defined[gvk]; ok {
			return namespaced, nil
		}
		return served(gvk)
	}
}

func place(o *unstructured.Unstructured, namespaced bool, fallback string) {
	switch {
	case !namespaced:
		o.SetNamespace("")
	case o.GetNamespace() == "":
		o.SetNamespace(fallback)
	}
}

// mark adds the owner to the metadata of an object.
func mark(o *unstructured.Unstructured, by guard.Owner) {
	utils.SetCommonMetadata([]*unstructured.Unstructured{o}, map[string]string{
		v1beta2.LabelManagedBy:  v1beta2.ManagedByKyma,
		v1beta2.LabelModuleName: by.Module,
	}, map[string]string{
		v1beta2.AnnotationOwnedBy: by.Mark,
	})
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

// claimedByOther finds an object of the plan that another Manifest has already. Two owners would correct each other
// forever, so the later one waits: the one that does not have the object yet, or the younger one if neither has it.
// Objects that the other Manifest gives up are returned with its mark; the plan takes them over. A default CR that
// another Manifest names cannot be part of this content, but it belongs to that Manifest only once it was created.
func claimedByOther(
	m *v1beta2.Manifest, p plan, others []*v1beta2.Manifest, defaultCR func(*v1beta2.Manifest) (v1beta2.Resource, bool),
	givesUp func(*v1beta2.Manifest, key) (bool, error),
) (takes map[key]string, conflict string, err error) {
	mine, want, own := keysOf(m.Status.Synced), keysOf(p.inventory), keys{}
	if p.defaultCR != nil {
		own[guard.KeyOf(p.defaultCR)] = struct{}{}
	}
	takes = map[key]string{}
	for _, other := range others {
		taken := func(k key) string {
			if other.IsRemoved() {
				return fmt.Sprintf("%s belongs to module %s, which is being removed: wait until it is gone", k,
					other.Module())
			}
			return fmt.Sprintf("%s belongs to module %s already: remove it from one of both", k, other.Module())
		}
		for _, r := range other.Status.Synced {
			k := keyOf(r)
			if !want.has(k) && !own.has(k) {
				continue
			}
			if givenUp, err := givesUp(other, k); err != nil {
				return nil, "", err
			} else if givenUp && want.has(k) {
				takes[k] = other.Namespace + "/" + other.Name
				continue
			}
			if want.has(k) && (!mine.has(k) || older(other, m)) || own.has(k) {
				return nil, taken(k), nil
			}
		}
		if r, ok := defaultCR(other); ok && want.has(keyOf(r)) && !mine.has(keyOf(r)) {
			return nil, taken(keyOf(r)), nil
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

// removalStages returns the objects in the order of removal. Each stage must be gone before the next begins: webhooks
// first, because their server is about to go; custom resources while the operator for their finalizers runs; workloads
// and other objects; definitions; the rights that all of them used; namespaces.
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
