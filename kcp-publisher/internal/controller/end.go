package controller

import (
	"context"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/reconcile"
)

// end ends every reconcile. It either removes the finalizer, or writes the status and returns the time of the next
// reconcile.
func (k *Kymas) end(ctx context.Context, p *pass, state reconcile.State) (ctrl.Result, error) {
	if state == reconcile.Due && p.outcome.Pushed {
		bundlesPublished.WithLabelValues(string(p.outcome.Reason)).Inc()
		ctrl.LoggerFrom(ctx).Info("published bundle", "runtime", p.runtime.ID, "sequence",
			p.outcome.Published.Predicate.Sequence,
			"digest", p.outcome.Published.Digest, "reason", p.outcome.Reason)
	}
	k.finishPending(p, state == reconcile.Settled || state == reconcile.Due && p.facts.Published == reconcile.Yes)
	if state == reconcile.Refused {
		k.dropPending(p.name) // no work is pending until an operator changes the Kyma
	}
	if state != reconcile.Settled && state != reconcile.Unknown {
		p.own()
	}
	if reason, message := k.finalizable(p, state); reason != "" {
		return ctrl.Result{}, k.removeFinalizer(ctx, p.kyma, reason, message)
	}
	// Until this time, a reconcile with the same inputs can be skipped.
	var until time.Time
	write := k.judge(p, state)
	if state == reconcile.Due {
		if write {
			until = settledUntil(p.before, p.kyma, p.status, p.outcome, k.Now(), k.PollInterval)
			write = until.IsZero() // no need to write the status if no work is pending
			if !write {
				k.count(p.kyma)
			}
		}
		k.fleet.EditOf(p.kyma, func(r *fleetstate.Runtime) {
			r.Settled = fleetstate.Settled{Basis: p.basis, Until: until}
		})
	}
	if write {
		if err := k.write(ctx, p.before, p.kyma); err != nil {
			return ctrl.Result{}, err
		}
	}
	k.recordSuccess(ctx, p, state)
	return k.next(p, state, until), nil
}

// finalizable returns the reason for removing the finalizer of a deleted Kyma. It returns "" if the Kyma must keep the
// finalizer for now.
func (k *Kymas) finalizable(p *pass, state reconcile.State) (reason, message string) {
	if !p.facts.Deleted {
		return "", ""
	}
	switch state {
	case reconcile.Refused:
		return plan.FinalizableRefused(p.kyma, p.status.PublishError, k.DeletionTimeout, k.Now())
	case reconcile.Due:
		if p.status.Published != nil {
			return plan.Finalizable(p.kyma, *p.status.Published, p.status.Report, k.DeletionTimeout, k.Now())
		}
		return plan.FinalizableUnnotified(p.kyma)
	case reconcile.Unreachable: // a label can declare that the cluster is gone
		return plan.FinalizableUnnotified(p.kyma)
	}
	return "", ""
}

// judge sets the status of the reconciled Kyma. It returns false if the status does not have to be written.
func (k *Kymas) judge(p *pass, state reconcile.State) bool {
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
		return k.setSilent(p, k.reports.remembered(p.kyma))
	case reconcile.Held:
		if p.facts.Admitted != reconcile.Yes {
			return false // a later reconcile writes the refusal
		}
		facts := ingest.Facts{Generation: p.kyma.Generation, Published: p.renewed, Deleting: p.facts.Deleted}
		if silent := k.setSilent(p, p.newest); !silent && p.newest.Refused == nil {
			facts.Report = p.newest.Accepted
		}
		facts.Silence, _, _ = k.Rules.Allowed(p.kyma) // setSilent ignores an invalid annotation, too
		p.kyma.Status = ingest.HeldBy(p.kyma.Status, facts, k.holding(p.facts.Changing), k.Now())
		return true
	}
	return false
}

func (k *Kymas) setStatus(p *pass) {
	before := p.kyma.Status
	if p.runtime.Secrets != nil && !p.runtime.Secrets.Partial {
		before.Runtime.Secrets = ingest.KnownSecrets(before.Runtime.Secrets, p.runtime.Secrets.All, p.status)
	}
	p.kyma.Status = ingest.Status(before, p.status, k.Now())
	if p.requested != "" {
		p.kyma.Status.LastHandledReconcileAt = p.requested
	}
}

// setSilent sets the condition Reporting to False if the runtime has not reported for longer than allowed.
func (k *Kymas) setSilent(p *pass, newest fleetstate.Report) (silent bool) {
	// ignore an invalid annotation: publishing the next bundle reports the error
	allowed, carried, _ := k.Rules.Allowed(p.kyma)
	k.applyReport(p.kyma, newest)
	p.kyma.Status, silent = ingest.SilentStatus(p.kyma.Status, p.kyma.Generation, allowed, carried,
		k.reports.unrecordedUntil(p.kyma), k.Now())
	return silent
}

func (k *Kymas) recordSuccess(ctx context.Context, p *pass, state reconcile.State) {
	reported := !p.newest.Asked.Before(p.started)
	switch {
	case state == reconcile.Due && p.wait == 0, state == reconcile.Settled && !p.endedAfterBundleCheck():
		k.backoff.recordSuccess(ctx, p.name, p.started, p.outcome.Pushed || reported, reported)
	case state == reconcile.Settled:
		k.backoff.recordSuccess(ctx, p.name, p.started, p.firstCheck, false)
	case state == reconcile.Held && p.facts.Report == reconcile.Yes:
		k.backoff.recordSuccess(ctx, p.name, p.started, false, reported)
	}
}

// endedAfterBundleCheck reports whether the reconcile only checked the bundle and left the report for later.
func (p *pass) endedAfterBundleCheck() bool {
	return p.facts.Postponed && p.facts.Bundle == reconcile.Yes
}

func (k *Kymas) next(p *pass, state reconcile.State, until time.Time) ctrl.Result {
	soon := func(wait time.Duration) ctrl.Result {
		return ctrl.Result{RequeueAfter: jitter.JitteredIntervalDuration(wait), Priority: k.orderOf(p.kyma)}
	}
	switch state {
	case reconcile.Unknown:
		return ctrl.Result{RequeueAfter: catalogSettles}
	case reconcile.Held:
		return ctrl.Result{RequeueAfter: jitter.JitteredIntervalDuration(k.PollInterval)}
	case reconcile.Unreachable:
		return ctrl.Result{RequeueAfter: p.wait}
	case reconcile.Refused:
		return k.nextPoll(p.kyma, k.Now(), time.Time{})
	case reconcile.Settled:
		if p.endedAfterBundleCheck() {
			k.count(p.kyma)
			return ctrl.Result{RequeueAfter: p.postponed.Sub(p.started), Priority: k.orderOf(p.kyma)}
		}
		return k.nextPoll(p.kyma, p.newest.Asked, p.settled.Until)
	case reconcile.Due:
		result := k.nextPoll(p.kyma, p.newest.Asked, until)
		switch {
		case p.outcome.Unrecorded:
			result = ctrl.Result{RequeueAfter: recordedSoon}
		case postponesStatus(p.outcome):
			result = soon(min(statusSettles, k.PollInterval))
		case p.outcome.Removals.Settling():
			result = soon(removalSettles / 4)
		}
		if p.wait > 0 {
			result.RequeueAfter = p.wait
		}
		return result
	}
	return ctrl.Result{}
}

// beginPending takes the Kyma's pending work from the in-memory state, so that this reconcile does the work. Further
// calls have no effect.
func (k *Kymas) beginPending(p *pass) {
	if !p.begun {
		p.begun = true
		p.pending = k.takePending(p.name)
	}
}

func (k *Kymas) finishPending(p *pass, done bool) {
	if p.begun {
		k.pendingAfter(p.name, done || !p.pending)
	}
}
