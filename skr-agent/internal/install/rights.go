package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// right is one thing that an account must be allowed to do. Without a name it is about all objects of the kind.
type right struct {
	verb, group, resource, namespace, name string
}

func (r right) String() string {
	text := r.verb + " " + strings.TrimSuffix(r.resource+"."+r.group, ".")
	if r.name != "" {
		text += fmt.Sprintf(" %q", r.name)
	}
	if r.namespace != "" {
		text += " in namespace " + r.namespace
	}
	return text
}

// plurals tells how a kind is called in rules; false when neither the cluster nor the content defines it.
type plurals func(schema.GroupVersionKind) (resource string, known bool)

// rightsFor returns what installing, keeping and removing the plan takes, so that a module which cannot be removed with its account's
// rights is not installed with them either.
func rightsFor(p plan, plural plurals) []right {
	plural = withDefinedPlurals(plural, p.stages[0])
	var needed []right
	add := func(gvk schema.GroupVersionKind, namespace, name string, verbs ...string) {
		resource, known := plural(gvk)
		for _, verb := range verbs {
			if known {
				needed = append(needed, right{verb, gvk.Group, resource, namespace, name})
			}
		}
	}
	for _, o := range p.shared {
		add(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), "get", "patch")
	}
	for _, o := range slices.Concat(p.stages[:]...) {
		add(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), "get", "create", "patch", "delete")
		if isCRD(o.GroupVersionKind().GroupKind()) {
			// The module may not go while users have objects of its kinds.
			add(servedKind(o), "", "", "list")
		}
	}
	if o := p.defaultCR; o != nil {
		add(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), "get", "create", "delete")
	}
	for _, r := range p.prune {
		add(gvkOf(r), r.Namespace, r.Name, "get", "delete")
	}
	return needed
}

func withDefinedPlurals(served plurals, definitions []*unstructured.Unstructured) plurals {
	defined := map[schema.GroupKind]string{}
	for _, o := range definitions {
		if isCRD(o.GroupVersionKind().GroupKind()) {
			defined[servedKind(o).GroupKind()], _, _ = unstructured.NestedString(o.Object, "spec", "names", "plural")
		}
	}
	return func(gvk schema.GroupVersionKind) (string, bool) {
		if plural := defined[gvk.GroupKind()]; plural != "" {
			return plural, true
		}
		return served(gvk)
	}
}

// mayApply tells what keeps an account from installing a plan, before anything is written; nil when nothing does. The agent itself
// is not asked: its rights are the operator's to give, and what is missing is told when it is met.
func (i *Installer) mayApply(ctx context.Context, m *v1beta2.Manifest, p plan) (*finding, error) {
	a := i.actor(m)
	if a.user == "" {
		return nil, nil
	}
	missing, err := a.lacks(ctx, rightsFor(p, i.plural))
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return &finding{reason: v1beta2.ReasonForbidden, message: fmt.Sprintf("nothing was applied: %s may not %s: grant it that, or remove the objects from the module",
			a.user, firstFew(missing))}, nil
	}
	if installed(m) {
		return nil, nil
	}
	return a.refused(ctx, p)
}

func (i *Installer) plural(gvk schema.GroupVersionKind) (string, bool) {
	mapping, err := i.cluster.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return "", false // what cannot be applied takes no rights, and is refused elsewhere
	}
	return mapping.Resource.Resource, true
}

// lacks returns those of the rights that the account does not have. It asks for a whole kind first, which answers most of it at once.
func (a *actor) lacks(ctx context.Context, needed []right) ([]string, error) {
	wide := map[right]bool{}
	var missing []string
	for _, r := range needed {
		all := r
		all.name = ""
		allowed, asked := wide[all]
		var err error
		if !asked {
			if allowed, err = a.may(ctx, all); err != nil {
				return nil, err
			}
			wide[all] = allowed
		}
		if !allowed && r.name != "" {
			if allowed, err = a.may(ctx, r); err != nil {
				return nil, err
			}
		}
		if !allowed {
			missing = append(missing, r.String())
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing), nil
}

// may asks the API server, as the account itself.
func (a *actor) may(ctx context.Context, r right) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: r.verb, Group: r.group, Resource: r.resource, Namespace: r.namespace, Name: r.name},
	}}
	if err := a.cluster.Create(ctx, review); err != nil {
		return false, fmt.Errorf("ask what %s may do: %w", a.user, err)
	}
	return review.Status.Allowed, nil
}

// refused dry-runs all objects that can be by now and tells of the first that the API server does not let the account write: a role
// with more rights than its own, or what a policy forbids. Anything else that is wrong shows when it is applied.
func (a *actor) refused(ctx context.Context, p plan) (*finding, error) {
	for _, o := range slices.Concat(p.shared, slices.Concat(p.stages[:]...)) {
		err := a.cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.DryRunAll, client.ForceOwnership)
		switch {
		case apierrors.IsForbidden(err):
			return &finding{reason: v1beta2.ReasonForbidden, message: fmt.Sprintf("nothing was applied: %s may not write %s: %v", a.user, keyOfObject(o), err)}, nil
		case err != nil && (passing(err) || ctx.Err() != nil):
			return nil, err
		}
	}
	return nil, nil
}

// denied ends a pass in which the account was not allowed something, after it had been installed or while it is removed.
func (i *Installer) denied(m *v1beta2.Manifest, err error) outcome {
	known := i.remembered(m)
	return outcome{
		state: v1beta2.StateError, inventory: m.Status.Synced,
		ready: finding{reason: v1beta2.ReasonForbidden, message: strings.TrimSpace(cmp.Or(i.actor(m).user, "the agent") + " lacks a right: " + err.Error())},
		again: known.lookAgain(m.Generation, i.now(), 4*i.LookInterval),
	}
}
