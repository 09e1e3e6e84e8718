package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/drift"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// checker checks a plan before the installer writes any of its objects. It does not write.
type checker struct {
	planner *planner
	watches *drift.Watches
	// cluster lists webhooks and policies with the agent's own permissions.
	cluster      client.Client
	fieldManager string
}

// check reviews a plan before the installer writes any of its objects. problem is the reason why the plan must not be
// applied. rights is the result of reviewing the module account's permissions.
func (c *checker) check(
	ctx context.Context, m *v1beta2.Manifest, p *planning.Plan,
) (rights, problem *outcome.Finding, err error) {
	if rights, problem, err = c.mayApply(ctx, m, *p); err != nil || problem != nil {
		return rights, problem, err
	}
	if problem, err = c.foreignObjects(ctx, m, p); err != nil || problem != nil {
		return rights, problem, err
	}
	problem, err = c.exposes(ctx, m, p)
	return rights, problem, err
}

// mayApply returns a problem if an account lacks permissions to install a plan. It does not review the agent's own
// permissions.
//
// If a webhook for access reviews does not respond, the permissions are unknown, and dry-running all objects decides
// instead. rights then contains the reason.
func (c *checker) mayApply(
	ctx context.Context, m *v1beta2.Manifest, p planning.Plan,
) (rights, problem *outcome.Finding, err error) {
	a := c.planner.accounts.Of(m)
	if a.User == "" {
		return nil, nil, nil
	}
	missing, err := a.Lacks(ctx, guard.RequiredPermissions(p.Work(), a.Plural))
	if err != nil && account.IsTransient(err) && ctx.Err() == nil {
		rights = &outcome.Finding{
			Unknown: true,
			Reason:  v1beta2.ReasonRightsUnknown,
			Message: fmt.Sprintf("the permissions of %s could not be reviewed: %v", a.User, err),
		}
		problem, err = dryRunAll(ctx, a, p)
		return rights, problem, err
	}
	if err != nil {
		return nil, nil, err
	}
	if meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionRights) != nil {
		rights = &outcome.Finding{
			OK:      true,
			Reason:  v1beta2.ReasonRightsReviewed,
			Message: "the permissions of " + a.User + " were reviewed",
		}
	}
	if len(missing) > 0 {
		return rights, &outcome.Finding{
			Reason: v1beta2.ReasonForbidden,
			Message: fmt.Sprintf(
				"nothing was applied: %s may not %s: grant this permission, or remove the objects from the module",
				a.User, excerpt.FirstFew(missing)),
		}, nil
	}
	if !planning.Installed(m) {
		problem, err = dryRunAll(ctx, a, p)
	}
	return rights, problem, err
}

// dryRunAll dry-runs all objects and returns the first Forbidden error, for example from an admission policy.
func dryRunAll(ctx context.Context, a *account.Account, p planning.Plan) (*outcome.Finding, error) {
	for _, o := range slices.Concat(p.Shared, slices.Concat(p.Stages[:]...)) {
		_, err := a.Apply(ctx, o, client.DryRunAll)
		switch {
		case apierrors.IsForbidden(err):
			why := v1beta2.ReasonForbidden
			if !account.LacksRight(err) {
				why = v1beta2.ReasonApplyFailed
			}
			return &outcome.Finding{
				Reason:  why,
				Message: fmt.Sprintf("nothing was applied: %s may not write %s: %v", a.User, guard.KeyOf(o), err),
			}, nil
		case err != nil && (account.IsTemporary(err) || ctx.Err() != nil):
			return nil, err
		}
	}
	return nil, nil
}

// foreignSearch finds existing objects in a plan that do not belong to the module.
type foreignSearch struct {
	actor *account.Account

	mu      sync.Mutex // guards foreign, left, and the plan's fields Unread and Absent
	plan    *planning.Plan
	foreign []string
	// left contains the objects that are moving to another module and already have a different owner. The value is the
	// other module.
	left map[guard.Key]string
	// isLeft reports whether the installed module is moving an object to another module.
	isLeft func(guard.Key) bool
}

// examineObject reads the live version of a planned object. It records whether the object is missing, unreadable, or
// not one of the module's objects. accepted reports whether a live object belongs to the module.
func (s *foreignSearch) examineObject(
	ctx context.Context, o *unstructured.Unstructured, found account.Listed,
	accepted func(*metav1.PartialObjectMetadata) bool,
) error {
	k := guard.KeyOf(o)
	live, err := found.Object(k)
	if errors.Is(err, account.ErrNotListed) {
		live, err = s.actor.Metadata(ctx, object.ResourceOf(o))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case guard.IsCustomGroup(k.Group) && account.IsUnreadable(object.ResourceOf(o), err):
		s.plan.Unread[k] = account.UnreadableText(object.ResourceOf(o), err)
	case err != nil:
		return err
	case live == nil:
		s.plan.Absent[k] = struct{}{}
	case accepted(live):
	case s.isLeft(k):
		s.left[k] = s.plan.Moves[k].To
	default:
		s.foreign = append(s.foreign, k.String()+object.DescribeOwner(live))
	}
	return nil
}

// ownerCheck decides whether existing objects in a plan belong to a module.
type ownerCheck struct {
	by           object.Owner
	before       object.Keys // the module's inventory
	plan         *planning.Plan
	fieldManager string
	// isAbandoned reports whether the module that owns an object does not need the object anymore.
	isAbandoned func(guard.Key, *metav1.PartialObjectMetadata) bool
}

func (c ownerCheck) canTakeOver(k guard.Key, live *metav1.PartialObjectMetadata) bool {
	return live.DeletionTimestamp.IsZero() &&
		(c.plan.TakesOver(k, live.Annotations[v1beta2.AnnotationOwnedBy], c.by) || c.isAbandoned(k, live))
}

func (c ownerCheck) acceptsObject(k guard.Key) func(*metav1.PartialObjectMetadata) bool {
	return func(live *metav1.PartialObjectMetadata) bool {
		return c.by.Owns(live) || c.canTakeOver(k, live) || c.before.Has(k) && object.WasAppliedBy(live, c.fieldManager)
	}
}

func (c ownerCheck) acceptsDefaultCR(live *metav1.PartialObjectMetadata) bool {
	if c.by.Owns(live) || !c.by.BelongsToOther(live) {
		return true
	}
	k := guard.KeyOf(c.plan.DefaultCR)
	if !c.canTakeOver(k, live) {
		return false
	}
	// createDefaultCR marks the CR as one of this module's objects.
	c.plan.Takes[k] = live.Annotations[v1beta2.AnnotationOwnedBy]
	return true
}

// foreignObjects returns a problem if existing objects in a plan do not belong to the module. Objects in an installed
// module's inventory belong to the module.
func (c *checker) foreignObjects(ctx context.Context, m *v1beta2.Manifest, p *planning.Plan) (*outcome.Finding, error) {
	by, before, whole := c.planner.owner(m), object.KeysOf(m.Status.Synced), planning.Installed(m)
	others, err := c.planner.otherManifests(ctx, m)
	if err != nil {
		return nil, err
	}
	p.Unread, p.Absent = map[guard.Key]string{}, object.Keys{}
	a := c.planner.accounts.Of(m)
	search := foreignSearch{actor: a, plan: p, left: map[guard.Key]string{}, isLeft: func(k guard.Key) bool {
		return p.Moves[k].To != "" && record.ReadUnverified(m).Applied != nil
	}}
	check := ownerCheck{
		by: by, before: before, plan: p, fieldManager: c.fieldManager,
		isAbandoned: func(k guard.Key, live *metav1.PartialObjectMetadata) bool {
			return planning.IsAbandoned(c.planner.records, k, live, others)
		},
	}
	// Examine CRDs first, because objects of a kind without a CRD do not exist.
	rest := append(slices.Concat(p.Stages[1:]...), p.DefaultCR)
	for _, part := range [2][]*unstructured.Unstructured{slices.Clone(p.Stages[0]), rest} {
		part = slices.DeleteFunc(part, func(o *unstructured.Unstructured) bool {
			return o == nil || whole && o != p.DefaultCR && before.Has(guard.KeyOf(o)) ||
				c.watches.IsMarked(object.ResourceOf(o), by.OwnedBy) || p.IsUndefined(o)
		})
		found, err := a.List(ctx, part)
		if err != nil {
			return nil, err
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(4)
		for _, o := range part {
			accepted := check.acceptsObject(guard.KeyOf(o))
			if o == p.DefaultCR {
				accepted = check.acceptsDefaultCR
			}
			group.Go(func() error { return search.examineObject(ctx, o, found, accepted) })
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
	}
	p.Yield(search.left, nil)
	if len(search.foreign) == 0 {
		return nil, nil
	}
	const text = "nothing was applied: %s already exists and does not belong to this module: " +
		"rename it in the module, delete it, or hand it over with the annotation %s=%s"
	return &outcome.Finding{
		Reason:  v1beta2.ReasonConflict,
		Message: fmt.Sprintf(text, excerpt.FirstFew(search.foreign), v1beta2.AnnotationAdopt, by.OwnedBy),
	}, nil
}

// exposes returns a problem if the plan's labels for the agent's namespace would let an installed webhook or policy
// intercept the agent's requests.
func (c *checker) exposes(ctx context.Context, m *v1beta2.Manifest, p *planning.Plan) (*outcome.Finding, error) {
	for _, o := range p.Shared {
		if o.GetName() != c.planner.namespace {
			continue
		}
		live, err := c.planner.accounts.Of(m).Metadata(ctx, object.ResourceOf(o))
		if err != nil {
			return nil, err
		}
		before, after := labels.Set{}, labels.Set{}
		if live != nil {
			before, after = live.Labels, guard.LabelsExceptManager(live, c.fieldManager+"/"+m.ModuleLabel())
		}
		after = labels.Merge(after, o.GetLabels())
		if labels.Equals(before, after) {
			if live != nil && len(o.GetLabels()) == 0 {
				p.Unlabeled = guard.KeyOf(o)
			}
			continue
		}
		found, err := installedInterceptors(ctx, c.cluster)
		if err != nil {
			return nil, err
		}
		if rule := guard.CheckNamespaceLabels(before, after, c.planner.namespace, found); rule != "" {
			return &outcome.Finding{Reason: v1beta2.ReasonProtected, Message: fmt.Sprintf("%s: %s", guard.KeyOf(o), rule)}, nil
		}
	}
	return nil, nil
}

// installedInterceptors lists all webhooks and policies. It uses the agent's own permissions.
func installedInterceptors(ctx context.Context, cluster client.Client) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for _, kind := range guard.InterceptorKinds() {
		mapping, err := cluster.RESTMapper().RESTMapping(schema.GroupKind{Group: guard.AdmissionGroup, Kind: kind})
		if meta.IsNoMatchError(err) {
			continue // not served by this Kubernetes version
		}
		if err != nil {
			return nil, err
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind + "List"))
		if err := cluster.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list webhooks and policies: %w", err)
		}
		all = append(all, list.Items...)
	}
	return all, nil
}
