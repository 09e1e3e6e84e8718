package install

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/rendering"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// planner reads the content of a module and plans the changes of the cluster. It reads Manifests from the cache and
// content from the content store. It does not write.
type planner struct {
	accounts account.Set
	cached   client.Reader // lists Manifests from the manager's cache
	records  record.Store
	plans    *planning.Cache
	renderer rendering.Renderer
	// namespace is the namespace of Manifests and the default namespace of objects.
	namespace string
	// incomplete reports whether the agent is still writing the Manifests of a bundle. It can be nil.
	incomplete func() bool
	// unwritten returns the Manifests of the latest bundle that the runtime's Manifests do not match yet. It can be
	// nil.
	unwritten func() []v1beta2.Manifest
}

// plan renders the content of a Manifest and returns the plan. The finding is a problem that the module causes. All
// errors are temporary.
func (pl *planner) plan(ctx context.Context, m *v1beta2.Manifest) (planning.Plan, *outcome.Finding, error) {
	p, problem, err := pl.content(ctx, m, m.Status.Synced)
	if err != nil || problem != nil {
		return planning.Plan{}, problem, err
	}
	problem, err = pl.checkClaims(ctx, m, &p)
	return p, problem, err
}

// content returns the plan of a Manifest without the objects of other Manifests. inventory is the Manifest's inventory.
func (pl *planner) content(
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

// planFor returns the plan for the next step: all objects for stepApply, otherwise the changed objects. It uses the
// cached plan if possible.
func (pl *planner) planFor(
	ctx context.Context, m *v1beta2.Manifest, todo step, changed object.Keys,
) (planning.Plan, *outcome.Finding, error) {
	if todo == stepApply {
		return pl.plan(ctx, m)
	}
	if p, ok := pl.plans.Changed(client.ObjectKeyFromObject(m), planning.Input(m, pl.owner(m)), changed); ok {
		problem, err := pl.checkClaims(ctx, m, &p)
		return p, problem, err
	}
	p, problem, err := pl.plan(ctx, m)
	p.KeepOnly(changed)
	return p, problem, err
}

// checkClaims returns a conflict if another Manifest owns an object of the plan. It also records the objects that
// another Manifest owns but does not need anymore, so that this module can take them over.
func (pl *planner) checkClaims(ctx context.Context, m *v1beta2.Manifest, p *planning.Plan) (*outcome.Finding, error) {
	others, err := pl.otherManifests(ctx, m)
	if err != nil {
		return nil, err
	}
	takes, conflict, err := planning.ClaimedByOther(m, *p, others, pl.defaultCR, pl.releaseFilter(ctx))
	if err != nil || conflict == "" {
		p.Takes = takes
		return nil, err
	}
	return &outcome.Finding{Reason: v1beta2.ReasonConflict, Message: conflict}, nil
}

func (pl *planner) owner(m *v1beta2.Manifest) object.Owner {
	component := m.Annotations[v1beta2.AnnotationFQDN]
	return object.Owner{
		OwnedBy: m.Namespace + "/" + m.Name, Module: m.ModuleLabel(), Namespace: pl.namespace,
		InheritedOwners: takeover.OwnerAnnotations(m.Annotations[v1beta2.AnnotationKymas], component,
			m.ModuleLabel(), m.Module(), component),
	}
}

// mayDelete returns a function that reports whether the agent can delete an object in the inventory of a Manifest.
func (pl *planner) mayDelete(m *v1beta2.Manifest) func(*metav1.PartialObjectMetadata) bool {
	return pl.owner(m).DeletionFilter(pl.records.Read(m).Inherited != "")
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

// correctedObjects returns the objects whose drift the agent corrects: the inventory and the default CR.
func (pl *planner) correctedObjects(m *v1beta2.Manifest) object.Keys {
	kept := object.KeysOf(m.Status.Synced)
	if r, ok := pl.defaultCR(m); ok {
		kept[object.KeyOf(r)] = struct{}{}
	}
	return kept
}
