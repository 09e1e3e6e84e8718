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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/reconcile"
)

// addFinalizer keeps a Kyma until its runtime is empty.
func (k *Kymas) addFinalizer(ctx context.Context, p *pass) error {
	kyma, before := p.kyma, p.kyma.DeepCopy()
	controllerutil.AddFinalizer(kyma, v1beta2.FinalizerKyma)
	if err := k.Client.Patch(ctx, kyma, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("add finalizer to Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	p.before, p.facts.Finalizer = kyma.DeepCopy(), true
	return nil
}

// lastView returns what a deleted Kyma is resolved by while the control plane is changed by halves and that lasts, nil
// for others. Its last bundle has no modules and no catalog, so it cannot be of half a change; and what is in the way
// of the change may be the Kyma itself, such as in a quota.
func (k *Kymas) lastView(kyma *v1beta2.Kyma) *plan.View {
	if kyma.DeletionTimestamp.IsZero() || k.Catalog.changingFor() < reconcile.HoldSettles {
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

// removeFinalizer lets a Kyma disappear for a reason.
func (k *Kymas) removeFinalizer(ctx context.Context, kyma *v1beta2.Kyma, reason, message string) error {
	if err := k.removeManifests(ctx, kyma); err != nil {
		return err
	}
	before := kyma.DeepCopy()
	dropFinalizers(kyma)
	if err := k.Client.Patch(ctx, kyma, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("remove finalizer of Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	kind := corev1.EventTypeNormal
	if reason != v1beta2.ReasonRuntimeEmpty && reason != v1beta2.ReasonRuntimeGone {
		kind = corev1.EventTypeWarning
	}
	k.event(kyma, kind, reason, "Delete", message)
	ctrl.LoggerFrom(ctx).Info("finalized a deleted Kyma", "runtime", plan.RuntimeID(kyma), "reason", reason)
	return nil
}
