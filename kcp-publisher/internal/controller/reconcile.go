package controller

import (
	"context"
	"errors"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/reconcile"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

const (
	// If a reconcile had to write the Kyma's status before the bundle can be published, the next reconcile publishes
	// the bundle after publishDelay.
	publishDelay = 50 * time.Millisecond
	// statusDelay is the delay between pushing a bundle and updating the Kyma's status. During this time, the publisher
	// pushes bundles for other runtimes, which is more urgent.
	statusDelay = 300 * time.Millisecond
)

// Reconcile publishes the bundle for a Kyma, and updates the Kyma's status from its runtime's report. After a conflict,
// or if the decisions have changed, it requeues the Kyma and does not return an error.
func (k *Kymas) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := k.reconcile(ctx, req)
	if apierrors.IsConflict(err) || errors.Is(err, publish.ErrOutdatedDecision) {
		return ctrl.Result{RequeueAfter: jitter.JitteredIntervalDuration(min(statusDelay, k.PollInterval))}, nil
	}
	return result, err
}

// reconcile executes the actions that the function reconcile.Decide returns, until the action is End.
func (k *Kymas) reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	kyma, err := k.readKyma(ctx, req)
	if kyma == nil || err != nil {
		return ctrl.Result{}, err
	}
	p := k.beginPass(ctx, kyma)
	for {
		state, action := reconcile.Decide(p.facts)
		if action == reconcile.End {
			return k.endPass(ctx, p, state)
		}
		if err := k.execute(ctx, p, action); err != nil {
			k.finishPending(p, false)
			return ctrl.Result{}, err
		}
	}
}

// readKyma returns the Kyma from the cache. The caller must not modify it. readKyma returns nil if this process must
// not reconcile the Kyma, for example because another shard is responsible for it.
func (k *Kymas) readKyma(ctx context.Context, req ctrl.Request) (*v1beta2.Kyma, error) {
	kyma := &v1beta2.Kyma{}
	err := k.Client.Get(ctx, req.NamespacedName, kyma, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		k.counts.dropRuntime(req.NamespacedName)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !k.Share.Contains(kyma.Labels, plan.ClaimedRuntimeID(kyma)) {
		k.counts.dropRuntime(req.NamespacedName)
		return nil, nil
	}
	if plan.IsSkipped(kyma) {
		k.fleet.DropWork(req.NamespacedName)
		k.updateCounts(kyma)
		return nil, nil
	}
	return kyma, nil
}

// execute executes one action and adds its result to the facts.
func (k *Kymas) execute(ctx context.Context, p *pass, action reconcile.Action) error {
	if action == reconcile.ReadNewestDigest {
		k.readNewestDigest(ctx, p)
		return nil
	}
	p.copyKyma()
	switch action {
	case reconcile.AddFinalizer:
		return k.addFinalizer(ctx, p)
	case reconcile.Admit:
		k.checkAdmission(ctx, p)
		return nil
	case reconcile.CheckBundle:
		k.checkBundle(ctx, p)
		return nil
	case reconcile.FetchReport:
		k.fetchNewestReport(ctx, p)
		return nil
	case reconcile.Renew:
		return k.renewBundle(ctx, p)
	case reconcile.RecordReport:
		return k.recordReport(ctx, p)
	case reconcile.Persist:
		p.facts.Persisted = reconcile.Yes
		return k.persistNewData(ctx, p.before, p.kyma, p.status)
	default:
		return k.publishBundle(ctx, p)
	}
}
