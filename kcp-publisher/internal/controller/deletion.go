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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover"
)

// addFinalizer adds the publisher's finalizer, which keeps a deleted Kyma until its runtime has removed all modules.
func (k *Kymas) addFinalizer(ctx context.Context, p *pass) error {
	kyma, before := p.kyma, p.kyma.DeepCopy()
	controllerutil.AddFinalizer(kyma, v1beta2.FinalizerKyma)
	if err := k.Client.Patch(ctx, kyma,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("add finalizer to Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	p.before, p.facts.HasFinalizer = kyma.DeepCopy(), true
	return nil
}

// lastBundleView returns the catalog for the last bundle of a deleted Kyma if the catalog has been changing for a long
// time. The last bundle does not contain modules, so it does not depend on the change. For any other Kyma,
// lastBundleView returns nil.
func (k *Kymas) lastBundleView(kyma *v1beta2.Kyma) *plan.View {
	if kyma.DeletionTimestamp.IsZero() ||
		max(k.Catalog.changingFor(), k.Planner.heldFor()) < reconcile.HoldTimeout {
		return nil
	}
	if view := k.Rollouts.view.Load(); view != nil {
		return view
	}
	none, err := catalog.New(nil, nil) // this process started during the change and has not read the catalog yet
	if err != nil {
		return nil
	}
	return &plan.View{Catalog: none}
}

// removeFinalizer removes the publisher's finalizer from a deleted Kyma. It emits an Event with the reason.
func (k *Kymas) removeFinalizer(ctx context.Context, kyma *v1beta2.Kyma, reason, message string) error {
	if err := takeover.RemoveManifests(ctx, k.Client, k.uncached, kyma); err != nil {
		return err
	}
	before := kyma.DeepCopy()
	controllerutil.RemoveFinalizer(kyma, v1beta2.FinalizerKyma)
	takeover.RemoveFinalizer(kyma)
	if err := k.Client.Patch(ctx, kyma,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("remove finalizer of Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	kind := corev1.EventTypeNormal
	if reason != v1beta2.ReasonRuntimeEmpty && reason != v1beta2.ReasonRuntimeGone {
		kind = corev1.EventTypeWarning
	}
	k.emitEvent(kyma, kind, reason, "Delete", message)
	ctrl.LoggerFrom(ctx).Info("finalized a deleted Kyma", "runtime", plan.RuntimeID(kyma), "reason", reason)
	return nil
}
