package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// ensureFinalizer keeps a Kyma from disappearing before its runtime was told. It reports whether there is nothing more to do: the Kyma
// is deleted, and its finalizer was removed.
func (k *Kymas) ensureFinalizer(ctx context.Context, kyma *v1beta2.Kyma) (gone bool, err error) {
	if !kyma.DeletionTimestamp.IsZero() {
		return !controllerutil.ContainsFinalizer(kyma, v1beta2.FinalizerKyma), nil
	}
	if controllerutil.ContainsFinalizer(kyma, v1beta2.FinalizerKyma) {
		return false, nil
	}
	before := kyma.DeepCopy()
	controllerutil.AddFinalizer(kyma, v1beta2.FinalizerKyma)
	if err := k.Client.Patch(ctx, kyma, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("add finalizer to Kyma %s/%s: %w", kyma.Namespace, kyma.Name, client.IgnoreNotFound(err))
	}
	return false, nil
}

// lastView returns what a deleted Kyma is resolved by while the control plane is changed by halves and that lasts, nil for others. Its last
// bundle has no modules and no catalog, so it cannot be of half a change; and what is in the way of the change may be the Kyma itself, such as in
// a quota.
func (k *Kymas) lastView(kyma *v1beta2.Kyma) *plan.View {
	if kyma.DeletionTimestamp.IsZero() || k.Catalog.changingFor() < holdSettles {
		return nil
	}
	if view := k.Rollouts.View(); view != nil {
		return view
	}
	none, err := catalog.New(nil, nil) // this process began in the middle of the change
	if err != nil {
		return nil
	}
	return &plan.View{Catalog: none}
}

// finalize lets a deleted Kyma disappear once its last bundle is published and its runtime is empty, or once there is nobody to wait for
// any more.
func (k *Kymas) finalize(ctx context.Context, kyma *v1beta2.Kyma, facts ingest.Facts) (done bool, err error) {
	if kyma.DeletionTimestamp.IsZero() {
		return false, nil
	}
	reason, message := plan.FinalizableUntold(kyma)
	if facts.Published != nil {
		reason, message = plan.Finalizable(kyma, *facts.Published, facts.Report, k.DeletionTimeout, k.Now())
	}
	return k.removeFinalizer(ctx, kyma, reason, message)
}

// finalizeRefused does the same for a Kyma to which nothing may be published.
func (k *Kymas) finalizeRefused(ctx context.Context, kyma *v1beta2.Kyma) (done bool, err error) {
	if kyma.DeletionTimestamp.IsZero() {
		return false, nil
	}
	reason, message := plan.FinalizableRefused(kyma, k.DeletionTimeout, k.Now())
	return k.removeFinalizer(ctx, kyma, reason, message)
}

// removeFinalizer lets a Kyma disappear for a reason, if there is one.
func (k *Kymas) removeFinalizer(ctx context.Context, kyma *v1beta2.Kyma, reason, message string) (done bool, err error) {
	if reason == "" {
		return false, nil
	}
	if err := k.removeManifests(ctx, kyma); err != nil {
		return false, err
	}
	before := kyma.DeepCopy()
	dropFinalizers(kyma)
	if err := k.Client.Patch(ctx, kyma, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("remove finalizer of Kyma %s/%s: %w", kyma.Namespace, kyma.Name, client.IgnoreNotFound(err))
	}
	kind := corev1.EventTypeNormal
	if reason != v1beta2.ReasonRuntimeEmpty && reason != v1beta2.ReasonRuntimeGone {
		kind = corev1.EventTypeWarning
	}
	k.event(kyma, kind, reason, "Delete", message)
	ctrl.LoggerFrom(ctx).Info("finalized a deleted Kyma", "runtime", plan.RuntimeID(kyma), "reason", reason)
	return true, nil
}
