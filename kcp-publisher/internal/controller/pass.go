package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/reconcile"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// pass is one reconcile of a Kyma. It contains the facts and the results of the actions.
type pass struct {
	name    types.NamespacedName
	started time.Time
	facts   reconcile.Facts
	rules   plan.Rules
	basis   fleetstate.Basis
	settled fleetstate.Settled
	// kyma is the object in the cache. It must not be modified before the method own is called. before is the Kyma as
	// stored in the API server.
	kyma, before *v1beta2.Kyma
	// requested is the value of the annotation with which an operator requested this reconcile, or empty.
	requested string
	// postponed is the time to which reading the report was postponed. firstCheck is true if this is the first check of
	// the bundle in this process.
	postponed  time.Time
	firstCheck bool
	// pending is true if work for the Kyma was pending at the start of this reconcile. begun is true if this reconcile
	// has taken over the work.
	pending, begun bool
	// wait is the remaining time before the publisher tries the registry again.
	wait    time.Duration
	answer  *answer
	newest  fleetstate.Report
	runtime plan.Runtime
	outcome publish.Outcome
	// renewed is the newest bundle if this reconcile only renews bundles. It is nil if the bundle could not be read.
	renewed *plan.Published
	status  ingest.Facts
}

// begin starts a reconcile and sets the facts that require no request to the registry.
func (k *Kymas) begin(ctx context.Context, kyma *v1beta2.Kyma) *pass {
	name := client.ObjectKeyFromObject(kyma)
	// Read the change counters before the objects. A change in between then causes another reconcile.
	all, record := k.Catalog.marked.Load(), k.fleet.Of(kyma)
	rules, view := k.resolvedBy(ctx, kyma)
	p := &pass{
		name: name, started: k.Now(), rules: rules, kyma: kyma, settled: record.Settled,
		requested: plan.Requested(kyma), pending: record.Pending.Next,
		basis: fleetstate.Basis{
			Version: kyma.ResourceVersion, View: view, Source: rules.Source, All: all, Own: record.Changed,
		},
	}
	p.wait = k.backoff.wait(name, p.started)
	p.facts = reconcile.Facts{
		View: view != nil, Deleted: !kyma.DeletionTimestamp.IsZero(),
		Finalizer: slices.Contains(kyma.Finalizers, v1beta2.FinalizerKyma),
		Requested: p.requested != "", Pending: p.pending, Backoff: p.wait > 0,
	}
	if view == nil {
		p.facts.Changing = max(k.Catalog.changingFor(), k.Planner.unannouncedFor())
		if p.facts.Changing >= reconcile.HoldSettles {
			k.Catalog.slowChange.Store(true)
		}
		return p
	}
	known := k.reports.remembered(kyma)
	basis := p.basis
	basis.Report = known.Content()
	p.facts.Settled = known.Digest != "" && p.settled.Stands(basis, p.started) && k.checkOwner(ctx, kyma) == nil
	return p
}

// own replaces the cached Kyma with a copy that can be modified.
func (p *pass) own() {
	if p.before == nil {
		p.kyma = p.kyma.DeepCopy()
		p.before = p.kyma.DeepCopy()
	}
}

// take executes one action and adds its result to the facts.
func (k *Kymas) take(ctx context.Context, p *pass, action reconcile.Action) error {
	if action == reconcile.AskNewest {
		k.askNewest(ctx, p)
		return nil
	}
	p.own()
	switch action {
	case reconcile.AddFinalizer:
		return k.addFinalizer(ctx, p)
	case reconcile.Admit:
		k.admit(ctx, p)
		return nil
	case reconcile.CheckBundle:
		k.checkBundle(ctx, p)
		return nil
	case reconcile.FetchReport:
		k.fetchNewest(ctx, p)
		return nil
	case reconcile.Renew:
		return k.renew(ctx, p)
	default:
		return k.publish(ctx, p)
	}
}

func (k *Kymas) askNewest(ctx context.Context, p *pass) {
	known := k.reports.remembered(p.kyma)
	answer := k.reports.ask(ctx, p.kyma, known, k.freshEnough(p.kyma, false))
	if answer.err != nil || answer.digest != known.Digest {
		p.answer, p.facts.Newest = &answer, reconcile.No
		return
	}
	p.newest, p.facts.Newest = known, reconcile.Yes
	p.newest.Asked = answer.at
}

func (k *Kymas) admit(ctx context.Context, p *pass) {
	kyma := p.kyma
	p.status = ingest.Facts{Generation: kyma.Generation, Finished: phase.Finished(kyma)}
	if p.status.PublishError = k.refusal(ctx, p); p.status.PublishError != nil {
		p.facts.Admitted = reconcile.No
		return
	}
	p.facts.Admitted = reconcile.Yes
	p.basis.Version = kyma.ResourceVersion // the resource version has changed if the finalizer was added
	if p.facts.View && k.mayPostpone(p.before, kyma, p.status, p.basis) {
		p.firstCheck = k.reports.remembered(kyma).Postponed.IsZero()
		p.postponed = k.reports.postpone(kyma, k.firstPoll(kyma))
		p.facts.Postponed = p.started.Before(p.postponed)
	}
}

// refusal returns the reason why the publisher must not publish for the Kyma, or nil. It also sets those parts of the
// status that do not depend on a report.
func (k *Kymas) refusal(ctx context.Context, p *pass) (err error) {
	if p.status.Silence, p.status.Carried, err = p.rules.Allowed(p.kyma); err != nil && !p.facts.Deleted {
		return err
	}
	if err := k.claim(ctx, p); err != nil {
		return err
	}
	plan.Begin(p.kyma)
	return takeover.Inherit(ctx, k.direct, p.kyma)
}

// checkBundle checks whether the published bundle still matches the Kyma. It does not read the report.
func (k *Kymas) checkBundle(ctx context.Context, p *pass) {
	k.beginPending(p)
	// Read the report next, unless the check below succeeds.
	p.facts.Bundle = reconcile.No
	runtime := p.rules.Runtime(p.kyma, nil)
	request, err := p.rules.Request(p.kyma, nil)
	if err != nil {
		return
	}
	p.basis.View.Decide(runtime.ID, &request, p.kyma.Status.Runtime)
	if rests, err := k.Publisher.IsSettled(ctx, k.published(p.kyma), runtime, request, p.basis.View.Catalog); err == nil &&
		rests {
		p.facts.Bundle = reconcile.Yes
	}
}

func (k *Kymas) fetchNewest(ctx context.Context, p *pass) {
	fresh := k.PollInterval / 2
	p.wait = 0 // a reconcile that an operator requested ignores the backoff
	if p.facts.View {
		k.beginPending(p)
		fresh = k.freshEnough(p.kyma, p.pending)
	}
	if p.requested != "" && p.facts.View {
		k.published(p.kyma).Recheck()
	}
	newest, err := k.fetchReport(ctx, p.kyma, p.rules, fresh, p.answer)
	p.newest, p.facts.Report = newest, reconcile.Yes
	if err == nil {
		p.basis.Report = newest.Content()
		p.facts.Unchanged = p.settled.Stands(p.basis, k.Now())
		return
	}
	down, why := k.failed(ctx, p, err)
	if p.newest.Unread = why; down || !p.facts.View {
		p.facts.Report = reconcile.Down
	}
}

// failed starts or extends a backoff after a failed registry request. down is true if the whole registry is down. why
// is the error for the Kyma's status.
func (k *Kymas) failed(ctx context.Context, p *pass, err error) (down bool, why error) {
	p.wait, down = k.backoff.failed(ctx, p.name, k.Now(), err)
	return down, unanswered(err)
}

// unanswered removes details such as ports and times from an error. Otherwise, the condition would change in every
// reconcile.
func unanswered(err error) error {
	if answer := store.WithoutDetail(err); answer.Error() != err.Error() {
		return reason.With(reason.RegistryNotAnswering, answer)
	}
	return reason.Errorf(reason.RegistryNotAnswering,
		"the registry responds, but the requests for this runtime fail: see the publisher's log")
}

func (k *Kymas) renew(ctx context.Context, p *pass) error {
	k.applyReport(p.kyma, p.newest)
	newest, pushed, err := k.Publisher.Renew(ctx, k.published(p.kyma), p.rules.Runtime(p.kyma, p.newest.Accepted))
	p.facts.Renewed = reconcile.Yes
	switch {
	case errors.Is(err, publish.ErrMayNotPush):
		return err // another process now publishes for this runtime
	case err != nil:
		p.facts.Renewed = reconcile.No
		if store.Unavailable(err) {
			if down, _ := k.failed(ctx, p, err); down {
				p.facts.Renewed = reconcile.Down
			}
		}
		ctrl.LoggerFrom(ctx).Error(err, "failed to renew a bundle while a commit is held", "runtime",
			plan.RuntimeID(p.kyma))
		return nil
	}
	p.renewed = newest
	if pushed {
		bundlesPublished.WithLabelValues(string(plan.ReasonRenewalDue)).Inc()
		if k.Notify != nil {
			k.Notify(plan.RuntimeID(p.kyma))
		}
	}
	return nil
}

// publish writes the report's data to the status, resolves the Kyma's request, and pushes a new bundle if necessary.
func (k *Kymas) publish(ctx context.Context, p *pass) error {
	kyma, facts, newest := p.kyma, &p.status, p.newest
	if p.wait == 0 {
		k.applyReport(kyma, newest)
	}
	p.runtime = p.rules.Runtime(kyma, newest.Accepted)
	facts.UnrecordedUntil = k.reports.unrecordedUntil(kyma)
	facts.Report, facts.ReportRefused, facts.ReportUnread, facts.Deleting = newest.Accepted, newest.Refused,
		newest.Unread, p.runtime.Deleting
	var err error
	if facts.SecretsError, err = k.addSecrets(ctx, kyma, &p.runtime, newest); err != nil {
		return err
	}
	if err := k.persistFirst(ctx, p.before, kyma); err != nil {
		return err
	}
	view := p.basis.View
	request, err := p.rules.Request(kyma, facts.Report)
	if err == nil {
		err = plan.Cloned(kyma)
	}
	if err == nil {
		view.Decide(p.runtime.ID, &request, kyma.Status.Runtime)
		p.outcome, err = k.Publisher.Publish(ctx, k.published(kyma), p.runtime, request, view.Catalog)
	}
	if p.outcome.Pushed {
		k.fleet.EditOf(kyma, func(r *fleetstate.Runtime) { r.CountPush(k.Now()) })
		if k.Notify != nil {
			k.Notify(p.runtime.ID)
		}
	}
	facts.Problems = slices.Concat(p.outcome.Problems, p.outcome.Remarks)
	facts.Removals, facts.Deleting = p.outcome.Removals, facts.Deleting && !p.outcome.Kept
	facts.SecretsError = errors.Join(facts.SecretsError, p.outcome.SecretsError)
	facts.LeftOut, facts.Deviation, facts.Consistent = p.outcome.LeftOut, p.outcome.Deviation, p.outcome.Checked
	k.announceDeviation(ctx, kyma, p.outcome.Deviation)
	p.facts.Published = reconcile.Yes
	switch {
	case err == nil:
		facts.Published, facts.Given = &p.outcome.Published,
			view.Given(p.runtime.ID, p.outcome.Published, kyma.Status.Runtime)
		facts.Templates = view.Catalog.Templates(p.outcome.Published.Templates()...)
	case errors.Is(err, publish.ErrMayNotPush):
		return err // another process now publishes for this runtime
	case store.Unavailable(err):
		var down bool
		if down, facts.PublishError = k.failed(ctx, p, err); down {
			p.facts.Published = reconcile.Down
		} else {
			p.facts.Published = reconcile.No
			publishFailures.Inc()
		}
	default:
		facts.PublishError = err
		if _, refused := store.StatusOf(err); refused {
			facts.PublishError = reason.With(reason.RegistryNotAnswering, err)
			// Start a backoff. Otherwise, every poll would repeat the write that the registry refuses.
			k.failed(ctx, p, err)
		}
		publishFailures.Inc()
	}
	return nil
}
