package install

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// This file calls webhooks, admission policies and aggregated APIs interceptors, because they handle requests for other
// objects. A broken interceptor can block the module version that corrects or removes it, so the installer applies
// changes of interceptors first.

// pruneInterceptors deletes the webhooks, policies and APIServices that are not in the new version, before the version
// is applied. It ignores missing permissions, because pruneObjects reports them later.
func (dr *dryRunner) pruneInterceptors(ctx context.Context, m *v1beta2.Manifest, p planning.Plan) error {
	dropped := slices.DeleteFunc(slices.Clone(p.Prune), func(r v1beta2.Resource) bool {
		return !object.Intercepts(object.KeyOf(r).GroupKind())
	})
	found, err := dr.planner.handOver(ctx, m, dropped)
	if err != nil || len(found.deletable) == 0 {
		return err
	}
	_, err = dr.deleter.deleteObjects(ctx, m, found.deletable, object.KeysOf(found.deletable), dr.planner.mayDelete(m))
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// applyInterceptors applies only the webhooks, policies and APIServices of a plan that already exist in the cluster.
// One of them can be broken, and the new version can correct it. applyInterceptors returns only temporary errors.
func applyInterceptors(ctx context.Context, a *account.Account, p planning.Plan) error {
	for _, o := range slices.Concat(p.Stages[:]...) {
		if !object.Intercepts(o.GroupVersionKind().GroupKind()) {
			continue
		}
		live, err := a.Metadata(ctx, object.ResourceOf(o))
		if err == nil && live != nil {
			_, err = a.ApplyAndTake(ctx, o)
		}
		if err != nil && account.IsTemporary(err) {
			return err
		}
	}
	return nil
}

// applyInterceptorsFirst deletes or corrects webhooks, policies and APIServices after a failed dry run. It returns
// true if another dry run can succeed.
func (dr *dryRunner) applyInterceptorsFirst(
	ctx context.Context, m *v1beta2.Manifest, known *memo, p planning.Plan,
) (bool, error) {
	isInterceptor := func(r v1beta2.Resource) bool { return object.Intercepts(object.KeyOf(r).GroupKind()) }
	inForce := slices.ContainsFunc(m.Status.Synced, isInterceptor)
	if !inForce {
		return false, nil
	}
	if err := dr.ledger.begin(ctx, m, known); err != nil {
		return false, err
	}
	if err := dr.pruneInterceptors(ctx, m, p); err != nil {
		return false, err
	}
	return true, applyInterceptors(ctx, dr.planner.accounts.Of(m), p)
}
