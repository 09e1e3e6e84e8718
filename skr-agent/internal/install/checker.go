package install

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/drift"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// checker checks a plan before the installer writes any of its objects. It does not write.
type checker struct {
	planner *planner
	watches *drift.Watches
	// cluster lists webhooks and policies with the agent's own permissions.
	cluster      client.Client
	fieldManager string
}

// check checks a plan before the installer writes any of its objects. problem is the reason why the plan must not be
// applied. rights is the result of reviewing the permissions of the module's account.
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
// If a webhook for access reviews does not respond, the permissions are unknown, and a dry run of all objects decides
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

// dryRunAll dry-runs all objects and returns the first Forbidden error, for example of an admission policy.
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
