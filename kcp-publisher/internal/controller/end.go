package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/reconcile"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover"
)

// endPass ends every reconcile. It either removes the finalizer, or writes the status and returns the time of the next
// reconcile.
func (k *Kymas) endPass(ctx context.Context, p *pass, state reconcile.State) (ctrl.Result, error) {
	if state == reconcile.Due && p.outcome.IsPushed {
		bundlesPublished.WithLabelValues(string(p.outcome.Reason)).Inc()
		ctrl.LoggerFrom(ctx).Info("published bundle", "runtime", p.runtime.ID, "sequence",
			p.outcome.Published.Predicate.Sequence,
			"digest", p.outcome.Published.Digest, "reason", p.outcome.Reason)
	}
	k.finishPending(p, state == reconcile.Settled || state == reconcile.Due && p.facts.Published == reconcile.Yes)
	if state == reconcile.Refused || state == reconcile.Gone {
		k.fleet.DropWork(p.name) // nothing is pending until a user changes the Kyma
	}
	if state != reconcile.Settled && state != reconcile.Unknown {
		p.copyKyma()
	}
	if reason, message := k.finalizeReason(p, state); reason != "" {
		if err := k.recordDenied(ctx, p.kyma); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, k.removeFinalizer(ctx, p.kyma, reason, message)
	}
	// Reconciles with the same inputs can be skipped until this time.
	var until time.Time
	write := k.updateStatus(p, state)
	if state == reconcile.Due {
		if write {
			until = settledUntil(p.before, p.kyma, p.status, p.outcome, k.Now(), k.PollInterval)
			write = until.IsZero() // if no work is pending, the status does not need a write
			if !write {
				k.updateCounts(p.kyma)
			}
		}
		k.fleet.EditCurrent(p.kyma, func(r *fleetstate.Runtime) {
			r.Settled = fleetstate.SettledReconcile{Input: p.input, Until: until}
		})
	}
	if write {
		if err := k.writeStatus(ctx, p.before, p.kyma); err != nil {
			return ctrl.Result{}, err
		}
	}
	k.recordSuccess(ctx, p, state)
	return k.nextReconcile(p, state, until), nil
}

// finalizeReason returns the reason for removing a deleted Kyma's finalizer. It returns "" if the Kyma must keep the
// finalizer for now.
func (k *Kymas) finalizeReason(p *pass, state reconcile.State) (reason, message string) {
	if !p.facts.IsDeleted {
		return "", ""
	}
	switch state {
	case reconcile.Refused:
		return plan.FinalizeReasonRefused(p.kyma, p.status.PublishError, k.DeletionTimeout, k.Now())
	case reconcile.Due:
		if p.status.Published != nil {
			return plan.FinalizeReason(p.kyma, *p.status.Published, p.status.Report, k.DeletionTimeout, k.Now())
		}
		return plan.FinalizeReasonUnnotified(p.kyma)
	case reconcile.Unreachable: // an operator's label can declare that the runtime's cluster no longer exists
		return plan.FinalizeReasonUnnotified(p.kyma)
	}
	return "", ""
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
		return fmt.Errorf("remove finalizer from Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	kind := corev1.EventTypeNormal
	if reason != v1beta2.ReasonRuntimeEmpty && reason != v1beta2.ReasonRuntimeGone {
		kind = corev1.EventTypeWarning
	}
	k.emitEvent(kyma, kind, reason, "Delete", message)
	ctrl.LoggerFrom(ctx).Info("finalized a deleted Kyma", "runtime", plan.RuntimeID(kyma), "reason", reason)
	return nil
}

// updateStatus sets the reconciled Kyma's status. It returns false if the status does not have to be written.
func (k *Kymas) updateStatus(p *pass, state reconcile.State) bool {
	switch state {
	case reconcile.Due:
		if postponesStatus(p.outcome) {
			return false
		}
		k.setStatus(p)
		return true
	case reconcile.Refused:
		k.setStatus(p)
		return true
	case reconcile.Unreachable:
		return k.setUnpublished(p, k.reports.lastKnown(p.kyma), nil, "")
	case reconcile.Held:
		if p.facts.Admitted != reconcile.Yes {
			return false // a later reconcile writes the refusal
		}
		k.setUnpublished(p, p.newest, p.renewed, k.holdReason(p.facts.ChangingFor))
		return true
	}
	return false
}

func (k *Kymas) setStatus(p *pass) {
	before := p.kyma.Status
	if p.runtime.Secrets != nil && !p.runtime.Secrets.IsPartial {
		before.Runtime.Secrets = ingest.KnownSecrets(before.Runtime.Secrets, p.runtime.Secrets.Published, p.status)
	}
	p.kyma.Status = ingest.NextStatus(before, p.status, k.Now())
	if p.requested != "" {
		p.kyma.Status.LastHandledReconcileAt = p.requested
	}
}

// setUnpublished records the newest report in the status when no new bundle is published. It sets the condition
// Reporting to False if the runtime has not reported within the allowed time. The status never shows a better module
// state than the report. renewed is the renewed bundle, or nil. commit describes the Git commit that has not been
// published yet, or is empty.
func (k *Kymas) setUnpublished(
	p *pass, newest fleetstate.Report, renewed *plan.PublishedBundle, commit string,
) (silent bool) {
	// Ignore an invalid annotation here. The reconcile that publishes the next bundle reports the error.
	allowed, carried, _ := k.Rules.SilenceTimeoutFor(p.kyma)
	k.applyReport(p.kyma, newest)
	facts := ingest.Facts{
		Generation: p.kyma.Generation, Published: renewed, IsDeleting: p.facts.IsDeleted, SilenceTimeout: allowed,
		RenewError: p.renewError,
	}
	if newest.Refused == nil {
		facts.Report = newest.Accepted
	}
	p.kyma.Status = ingest.HeldStatus(p.kyma.Status, facts, commit, k.Now())
	p.kyma.Status, silent = ingest.SilentStatus(p.kyma.Status, p.kyma.Generation, allowed, carried,
		k.reports.unrecordedUntil(p.kyma), k.Now())
	return silent
}

func (k *Kymas) recordSuccess(ctx context.Context, p *pass, state reconcile.State) {
	reported := !p.newest.AskedAt.Before(p.started)
	switch {
	case state == reconcile.Due && p.remainingDelay == 0, state == reconcile.Settled && !p.isBundleCheckOnly():
		k.backoff.recordSuccess(ctx, p.name, p.started, p.outcome.IsPushed || reported, reported)
	case state == reconcile.Settled:
		k.backoff.recordSuccess(ctx, p.name, p.started, p.isFirstCheck, false)
	case state == reconcile.Held && p.facts.Report == reconcile.Yes:
		k.backoff.recordSuccess(ctx, p.name, p.started, reported, reported)
	}
}

// isBundleCheckOnly reports whether the reconcile checked the published bundle and postponed reading the report.
func (p *pass) isBundleCheckOnly() bool {
	return p.facts.CanPostpone && p.facts.Bundle == reconcile.Yes
}

func (k *Kymas) nextReconcile(p *pass, state reconcile.State, until time.Time) ctrl.Result {
	soon := func(wait time.Duration) ctrl.Result {
		return ctrl.Result{RequeueAfter: jitter.JitteredIntervalDuration(wait), Priority: k.priorityOf(p.kyma)}
	}
	switch state {
	case reconcile.Unknown:
		return ctrl.Result{RequeueAfter: catalogDelay}
	case reconcile.Held:
		return ctrl.Result{RequeueAfter: jitter.JitteredIntervalDuration(k.PollInterval)}
	case reconcile.Unreachable:
		return ctrl.Result{RequeueAfter: p.remainingDelay}
	case reconcile.Refused:
		return k.nextPoll(p.kyma, k.Now(), time.Time{})
	case reconcile.Settled:
		if p.isBundleCheckOnly() {
			k.updateCounts(p.kyma)
			return ctrl.Result{RequeueAfter: p.postponedTo.Sub(p.started), Priority: k.priorityOf(p.kyma)}
		}
		return k.nextPoll(p.kyma, p.newest.AskedAt, p.settled.Until)
	case reconcile.Due:
		result := k.nextPoll(p.kyma, p.newest.AskedAt, until)
		switch {
		case p.outcome.IsUnrecorded:
			result = ctrl.Result{RequeueAfter: publishDelay}
		case postponesStatus(p.outcome):
			result = soon(min(statusDelay, k.PollInterval))
		case p.outcome.Removals.IsSettling():
			result = soon(removalDelay / 4)
		}
		if p.remainingDelay > 0 {
			result.RequeueAfter = p.remainingDelay
		}
		return result
	}
	return ctrl.Result{}
}

func (k *Kymas) finishPending(p *pass, done bool) {
	if p.hasTakenPending {
		k.fleet.FinishPending(p.name, done || !p.pending, k.Now())
	}
}
