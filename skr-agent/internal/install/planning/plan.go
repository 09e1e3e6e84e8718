package planning

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
)

// Plan contains the objects to apply and to delete for a Manifest.
type Plan struct {
	// Shared contains namespaces that the module does not own. They get the module's labels and are never in its
	// inventory.
	Shared []*unstructured.Unstructured
	// Stages contains the objects to apply, in order: first CRDs, namespaces and cluster roles; then classes; then
	// other built-in kinds; then custom resources. Custom resources are last, because an earlier stage can contain
	// their webhooks.
	Stages [4][]*unstructured.Unstructured
	// unserved contains the kinds of the content's CRDs that the API server does not serve yet.
	unserved map[schema.GroupKind]bool
	// Inventory contains all objects in the stages. Prune contains the objects to delete, in the order of deletion.
	Inventory []v1beta2.Resource
	Prune     []v1beta2.Resource
	// Recreate contains objects to delete before the apply, because their immutable fields change.
	Recreate []v1beta2.Resource
	// DefaultCR is created once and not changed afterwards. It is nil if the module has no default CR.
	DefaultCR *unstructured.Unstructured
	// Resources and Images are the results of planning for the Manifest's conditions Resources and Images.
	Resources, Images outcome.Finding
	// Takes contains the objects that this module takes over from other Manifests. The value is the other Manifest, as
	// in the annotation owned-by.
	Takes map[guard.Key]string
	// Moves contains the moves that the content declares. Yielded contains the moved objects that another module owns.
	// The value is the owner's module name. Stages and Inventory do not contain these objects. Partners identifies the
	// Manifests of the modules in Moves.
	Moves    Moves
	Yielded  map[guard.Key]string
	Partners string
	// Unknown contains objects whose kind the API server does not serve or store. They are neither applied nor pruned.
	Unknown []string
	// Ignored contains the unknown fields of built-in kinds. They are not applied.
	Ignored []string
	// Unread contains custom resources that the API server could not read, with the error. They are applied later.
	Unread map[guard.Key]string
	// Unlabeled is the key for the agent's namespace if the module's content contains this namespace but sets no labels
	// on it. The agent then does not apply the namespace.
	Unlabeled guard.Key
	// Absent contains objects that did not exist when the plan was checked.
	Absent object.Keys
	// Refused is the problem with the objects that the API server rejected during a first installation.
	Refused *outcome.Finding
}

// Work returns the objects that the module's account must be allowed to access.
func (p *Plan) Work() guard.AccessedObjects {
	work := guard.AccessedObjects{Shared: p.Shared, Applied: slices.Concat(p.Stages[:]...), DefaultCR: p.DefaultCR}
	for _, r := range p.Prune {
		work.Pruned = append(work.Pruned, guard.PrunedObject{
			GroupVersionKind: object.GVKOf(r), Namespace: r.Namespace, Name: r.Name,
		})
	}
	return work
}

// KeepOnly reduces the plan to the changed objects and the default CR.
func (p *Plan) KeepOnly(changed object.Keys) {
	p.Shared, p.Prune = nil, nil
	for i, stage := range p.Stages {
		p.Stages[i] = slices.DeleteFunc(stage, func(o *unstructured.Unstructured) bool {
			return !changed.Has(guard.KeyOf(o))
		})
	}
}

// All returns all objects that the plan can write.
func (p *Plan) All() []*unstructured.Unstructured {
	all := slices.Concat(p.Shared, slices.Concat(p.Stages[:]...))
	if p.DefaultCR != nil {
		all = append(all, p.DefaultCR)
	}
	return all
}

// Labeled returns the shared namespaces that the agent applies.
func (p *Plan) Labeled() []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(p.Shared), func(o *unstructured.Unstructured) bool {
		return guard.KeyOf(o) == p.Unlabeled
	})
}

// LeftOut returns the problem with the objects that were not applied, or nil if all objects were applied.
func (p *Plan) LeftOut() *outcome.Finding {
	switch {
	case p.Refused != nil:
		return p.Refused
	case len(p.Unknown) > 0:
		return &outcome.Finding{Reason: v1beta2.ReasonUnknownKind, Message: excerpt.FirstFew(slices.Clone(p.Unknown))}
	}
	return nil
}

// LeaveUnread removes unreadable custom resources from a plan. They can be unreadable because their conversion webhook
// does not run, and the plan can contain the operator with this webhook. The custom resources stay in the inventory.
func (p *Plan) LeaveUnread() {
	if len(p.Unread) == 0 {
		return
	}
	for n, stage := range p.Stages {
		p.Stages[n] = slices.DeleteFunc(slices.Clone(stage), func(o *unstructured.Unstructured) bool {
			return p.Unread[guard.KeyOf(o)] != ""
		})
	}
	if p.DefaultCR != nil && p.Unread[guard.KeyOf(p.DefaultCR)] != "" {
		p.DefaultCR = nil
	}
}

// UnreadText lists unreadable custom resources with the API server's errors.
func (p *Plan) UnreadText() string {
	var texts []string
	for k, why := range p.Unread {
		texts = append(texts, k.String()+": "+why)
	}
	return "waiting until the API server can read " + excerpt.FirstFew(texts)
}

// IsUndefined reports whether an object cannot exist yet, because its CRD is part of the plan and the API server does
// not serve the kind. It records such an object as absent.
func (p *Plan) IsUndefined(o *unstructured.Unstructured) bool {
	gvk := o.GroupVersionKind()
	if !p.unserved[gvk.GroupKind()] {
		return false
	}
	for _, definition := range p.Stages[0] {
		if !p.Absent.Has(guard.KeyOf(definition)) || !guard.IsCRD(definition.GroupVersionKind().GroupKind()) {
			continue
		}
		if served := guard.ServedKind(definition); served.Group == gvk.Group && served.Kind == gvk.Kind {
			p.Absent[guard.KeyOf(o)] = struct{}{}
			return true
		}
	}
	return false
}

// IsDefinedBy reports whether one of the plan's CRDs in definitions defines an object's kind, and the API server does
// not serve this kind.
func (p *Plan) IsDefinedBy(o *unstructured.Unstructured, definitions object.Keys) bool {
	gvk := o.GroupVersionKind()
	return p.unserved[gvk.GroupKind()] && slices.ContainsFunc(p.Stages[0], func(d *unstructured.Unstructured) bool {
		if !guard.IsCRD(d.GroupVersionKind().GroupKind()) || !definitions.Has(guard.KeyOf(d)) {
			return false
		}
		defined := guard.ServedKind(d)
		return defined.Group == gvk.Group && defined.Kind == gvk.Kind
	})
}

// TakesOver reports whether a plan takes over an object from another Manifest. mark is the value of the object's
// annotation owned-by.
func (p *Plan) TakesOver(k guard.Key, mark string, by object.Owner) bool {
	from := p.Takes[k]
	return from != "" && from == mark && from != by.OwnedBy
}

// DefinedGroups returns the API groups that a plan's CRDs define.
func DefinedGroups(p Plan) map[string]bool {
	defined := map[string]bool{}
	for _, o := range p.Stages[0] {
		if guard.IsCRD(o.GroupVersionKind().GroupKind()) {
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			defined[group] = true
		}
	}
	return defined
}
