package account

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// Lacks returns the account's missing permissions. It first checks permissions without object names, which usually
// cover all objects of a kind.
func (a *Account) Lacks(ctx context.Context, needed []guard.Permission) ([]string, error) {
	wide := map[guard.Permission]bool{}
	var missing []string
	for _, r := range needed {
		all := r
		all.Name = ""
		allowed, asked := wide[all]
		var err error
		if !asked {
			if allowed, err = a.isAllowed(ctx, all); err != nil {
				return nil, err
			}
			wide[all] = allowed
		}
		if !allowed && r.Name != "" {
			if allowed, err = a.isAllowed(ctx, r); err != nil {
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

// isAllowed reports whether the account has a permission. It sends a SelfSubjectAccessReview.
func (a *Account) isAllowed(ctx context.Context, r guard.Permission) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb:      r.Verb,
			Group:     r.Group,
			Resource:  r.Resource,
			Namespace: r.Namespace,
			Name:      r.Name,
		},
	}}
	if err := a.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("review the permissions of %s: %w", a.User, err)
	}
	return review.Status.Allowed, nil
}
