package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
)

// mayApply returns a problem if an account lacks permissions to install a plan. It does not review the agent's own
// permissions.
//
// If a webhook for access reviews does not respond, the permissions are unknown, and a dry run of all objects decides
// instead. rights then contains the reason.
func (i *Installer) mayApply(ctx context.Context, m *v1beta2.Manifest, p plan) (rights, problem *outcome.Finding, err error) {
	a := i.actor(m)
	if a.user == "" {
		return nil, nil, nil
	}
	missing, err := a.lacks(ctx, guard.RightsFor(p.work(), i.plural))
	if err != nil && isTransient(err) && ctx.Err() == nil {
		rights = &outcome.Finding{
			Unknown: true,
			Reason:  v1beta2.ReasonRightsUnknown,
			Message: fmt.Sprintf("the rights of %s could not be reviewed: %v", a.user, err),
		}
		problem, err = a.refused(ctx, p)
		return rights, problem, err
	}
	if err != nil {
		return nil, nil, err
	}
	if meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionRights) != nil {
		rights = &outcome.Finding{
			OK:      true,
			Reason:  v1beta2.ReasonRightsReviewed,
			Message: "the rights of " + a.user + " were reviewed",
		}
	}
	if len(missing) > 0 {
		return rights, &outcome.Finding{
			Reason: v1beta2.ReasonForbidden,
			Message: fmt.Sprintf(
				"nothing was applied: %s may not %s: grant this permission, or remove the objects from the module",
				a.user, excerpt.FirstFew(missing)),
		}, nil
	}
	if !installed(m) {
		problem, err = a.refused(ctx, p)
	}
	return rights, problem, err
}

func (i *Installer) plural(gvk schema.GroupVersionKind) (string, bool) {
	mapping, err := i.cluster.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return "", false // ignore it; the plan reports unknown kinds
	}
	return mapping.Resource.Resource, true
}

// lacks returns the missing permissions of the account. It first checks permissions without object names, which
// usually cover all objects of a kind.
func (a *actor) lacks(ctx context.Context, needed []guard.Right) ([]string, error) {
	wide := map[guard.Right]bool{}
	var missing []string
	for _, r := range needed {
		all := r
		all.Name = ""
		allowed, asked := wide[all]
		var err error
		if !asked {
			if allowed, err = a.may(ctx, all); err != nil {
				return nil, err
			}
			wide[all] = allowed
		}
		if !allowed && r.Name != "" {
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

// may reports whether the account has a permission, with a SelfSubjectAccessReview.
func (a *actor) may(ctx context.Context, r guard.Right) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb:      r.Verb,
			Group:     r.Group,
			Resource:  r.Resource,
			Namespace: r.Namespace,
			Name:      r.Name,
		},
	}}
	if err := a.cluster.Create(ctx, review); err != nil {
		return false, fmt.Errorf("review the permissions of %s: %w", a.user, err)
	}
	return review.Status.Allowed, nil
}

// refused dry-runs all objects and returns the first Forbidden error, for example of an admission policy.
func (a *actor) refused(ctx context.Context, p plan) (*outcome.Finding, error) {
	for _, o := range slices.Concat(p.shared, slices.Concat(p.stages[:]...)) {
		err := a.cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.DryRunAll,
			client.ForceOwnership)
		switch {
		case apierrors.IsForbidden(err):
			why := v1beta2.ReasonForbidden
			if !lacksRight(err) {
				why = v1beta2.ReasonApplyFailed
			}
			return &outcome.Finding{
				Reason:  why,
				Message: fmt.Sprintf("nothing was applied: %s may not write %s: %v", a.user, guard.KeyOf(o), err),
			}, nil
		case err != nil && (isTemporary(err) || ctx.Err() != nil):
			return nil, err
		}
	}
	return nil, nil
}

// denied returns the outcome if the API server responds with Forbidden although the agent has checked the permissions.
func (i *Installer) denied(m *v1beta2.Manifest, err error) outcome.Outcome {
	known, why := i.remembered(m), v1beta2.ReasonForbidden
	if !lacksRight(err) {
		why = v1beta2.ReasonApplyFailed
	}
	return outcome.Outcome{
		State: v1beta2.StateError, Inventory: m.Status.Synced,
		Ready: outcome.Finding{
			Reason:  why,
			Message: strings.TrimSpace(cmp.Or(i.actor(m).user, "the agent") + " lacks a right: " + err.Error()),
		},
		Again: known.nextCheck(m.Generation, i.now(), 4*i.LookInterval),
	}
}
