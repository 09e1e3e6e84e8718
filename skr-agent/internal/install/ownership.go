package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// foreignSearch finds existing objects of a plan that do not belong to the module.
type foreignSearch struct {
	actor *account.Account

	mu      sync.Mutex // guards foreign and the plan's fields unreadable and missing
	plan    *planning.Plan
	foreign []string
}

// examineObject reads the live version of a planned object. It records an object that is missing, unreadable, or does
// not belong to the module. accepted reports whether a live object belongs to the module.
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
	case !accepted(live):
		s.foreign = append(s.foreign, k.String()+object.DescribeOwner(live))
	}
	return nil
}

// ownerCheck decides whether existing objects of a plan belong to a module.
type ownerCheck struct {
	by           object.Owner
	before       object.Keys // the module's inventory
	plan         *planning.Plan
	fieldManager string
	// isAbandoned reports whether the module that owns the object does not need it anymore.
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
	// createDefaultCR marks the CR as an object of this module.
	c.plan.Takes[k] = live.Annotations[v1beta2.AnnotationOwnedBy]
	return true
}

// foreignObjects returns a problem if existing objects of a plan do not belong to the module. Objects in the
// inventory of an installed module belong to it.
func (c *checker) foreignObjects(ctx context.Context, m *v1beta2.Manifest, p *planning.Plan) (*outcome.Finding, error) {
	by, before, whole := c.planner.owner(m), object.KeysOf(m.Status.Synced), planning.Installed(m)
	others, err := c.planner.otherManifests(ctx, m)
	if err != nil {
		return nil, err
	}
	p.Unread, p.Absent = map[guard.Key]string{}, object.Keys{}
	a := c.planner.accounts.Of(m)
	search := foreignSearch{actor: a, plan: p}
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
