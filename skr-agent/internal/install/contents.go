package install

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// rendered returns the plan for a Manifest's content, without regard to other Manifests. inventory is the Manifest's
// inventory.
func (pl *planner) rendered(
	ctx context.Context, m *v1beta2.Manifest, inventory []v1beta2.Resource,
) (planning.Plan, *outcome.Finding, error) {
	rendered, problem, err := pl.renderer.Module(ctx, m, pl.accounts.Of(m).Capabilities)
	if err != nil || problem != nil {
		return planning.Plan{}, problem, err
	}
	ignoreCR := m.Spec.CustomResourcePolicy == v1beta2.PolicyIgnore || !m.DeletionTimestamp.IsZero()
	p, err := planning.Make(content.Input{
		Objects: rendered.Objects, DefaultCR: rendered.DefaultCR, SkipDefaultCRRules: ignoreCR,
		Namespace: pl.namespace, Scope: pl.accounts.Own().Scope,
	}, inventory, pl.owner(m))
	if problem, err := contentProblem(err); problem != nil || err != nil {
		return planning.Plan{}, problem, err
	}
	if ignoreCR {
		p.DefaultCR = nil
	}
	for n, o := range p.Shared {
		p.Shared[n] = guard.NameAndLabels(o)
	}
	p.Resources, p.Images = outcome.Finding{OK: true, Reason: v1beta2.ReasonRendered,
		Message: fmt.Sprintf("content has %d objects", len(rendered.Objects))}, rendered.Images
	return p, nil, nil
}

// contentProblem separates a problem that the content causes from a temporary error.
func contentProblem(err error) (*outcome.Finding, error) {
	var refusal *guard.Refusal
	switch {
	case errors.As(err, &refusal):
		return &outcome.Finding{Reason: v1beta2.ReasonProtected, Message: err.Error()}, nil
	case err == nil || account.IsTemporary(err):
		return nil, err
	}
	return &outcome.Finding{Reason: v1beta2.ReasonContentBroken, Message: err.Error()}, nil
}

func (pl *planner) owner(m *v1beta2.Manifest) object.Owner {
	component := m.Annotations[v1beta2.AnnotationFQDN]
	return object.Owner{
		OwnedBy: m.Namespace + "/" + m.Name, Module: m.ModuleLabel(), Namespace: pl.namespace,
		InheritedOwners: takeover.OwnerAnnotations(m.Annotations[v1beta2.AnnotationKymas], component,
			m.ModuleLabel(), m.Module(), component),
	}
}

// correctedObjects returns the objects whose drift the agent corrects: the inventory and the default CR.
func (pl *planner) correctedObjects(m *v1beta2.Manifest) object.Keys {
	kept := object.KeysOf(m.Status.Synced)
	if r, ok := pl.defaultCR(m); ok {
		kept[object.KeyOf(r)] = struct{}{}
	}
	return kept
}

// otherManifests returns all other Manifests from the cache. Callers must not modify them.
func (pl *planner) otherManifests(ctx context.Context, m *v1beta2.Manifest) ([]*v1beta2.Manifest, error) {
	var all v1beta2.ManifestList
	if err := pl.cached.List(ctx, &all, client.InNamespace(pl.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Manifests: %w", err)
	}
	var others []*v1beta2.Manifest
	for n := range all.Items {
		if other := &all.Items[n]; other.Name != m.Name && other.UID != m.UID {
			others = append(others, other)
		}
	}
	return others, nil
}

// defaultCR returns the default CR that the agent creates and deletes. It returns false if the Manifest has none.
func (pl *planner) defaultCR(m *v1beta2.Manifest) (v1beta2.Resource, bool) {
	if m.Spec.Resource == nil || m.Spec.CustomResourcePolicy == v1beta2.PolicyIgnore {
		return v1beta2.Resource{}, false
	}
	o := m.Spec.Resource.DeepCopy()
	namespaced, err := pl.accounts.Own().Scope(o.GroupVersionKind())
	render.Place(o, namespaced || err != nil, pl.namespace)
	r := object.ResourceOf(o)
	return r, guard.ProtectionReason(object.KeyOf(r), pl.namespace) == ""
}
