package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/reconcile"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// pass is the state of one reconcile of a Kyma: the collected facts and the results of the actions.
type pass struct {
	name    types.NamespacedName
	started time.Time
	facts   reconcile.Facts
	rules   plan.Rules
	input   fleetstate.ReconcileInput
	settled fleetstate.SettledReconcile
	// kyma is the object in the cache. It must not be modified before the method copyKyma is called. before is the Kyma
	// as stored in the API server.
	kyma, before *v1beta2.Kyma
	// requested is the value of the annotation that an operator used to request this reconcile, or empty.
	requested string
	// postponedTo is the time to which this reconcile postponed reading the report. isFirstCheck is true if this
	// process checks the published bundle for the first time.
	postponedTo  time.Time
	isFirstCheck bool
	// pending is true if work for the Kyma was pending at the start of this reconcile. hasTakenPending is true after
	// takePendingWork was called.
	pending, hasTakenPending bool
	// remainingDelay is the rest of the backoff after a failed registry request, or 0.
	remainingDelay time.Duration
	answer         *digestAnswer
	newest         fleetstate.Report
	runtime        plan.Runtime
	outcome        publish.Outcome
	// renewed is the newest bundle of the runtime after the action Renew. It is nil if the bundle could not be read.
	renewed *plan.PublishedBundle
	// renewError is the reason why agents would refuse the renewed bundle, or nil.
	renewError error
	status     ingest.Facts
}

// beginPass starts a reconcile and sets the facts that do not require a request to the registry.
func (k *Kymas) beginPass(ctx context.Context, kyma *v1beta2.Kyma) *pass {
	name := client.ObjectKeyFromObject(kyma)
	// Read the change counters before the objects, so that a change in between causes another reconcile.
	all, record := k.Catalog.markedCount.Load(), k.fleet.GetCurrent(kyma)
	rules, view := k.resolveInput(ctx, kyma)
	p := &pass{
		name: name, started: k.Now(), rules: rules, kyma: kyma, settled: record.Settled,
		requested: plan.ReconcileRequest(kyma), pending: record.Pending.IsNext,
		input: fleetstate.ReconcileInput{
			Version: kyma.ResourceVersion, View: view, Source: rules.Source, AllChanges: all, OwnChanges: record.ChangedCount,
		},
	}
	p.remainingDelay = k.backoff.remainingDelay(name, p.started)
	p.facts = reconcile.Facts{
		HasView: view != nil, IsDeleted: !kyma.DeletionTimestamp.IsZero(),
		HasFinalizer: slices.Contains(kyma.Finalizers, v1beta2.FinalizerKyma),
		Requested:    p.requested != "", Pending: p.pending, InBackoff: p.remainingDelay > 0,
	}
	if view == nil {
		p.facts.ChangingFor = max(k.Catalog.changingFor(), k.Planner.unannouncedFor())
		if p.facts.ChangingFor >= reconcile.HoldTimeout {
			k.Catalog.isSlowChange.Store(true)
		}
		return p
	}
	known := k.reports.lastKnown(kyma)
	basis := p.input
	basis.Report = known.ContentDigest()
	p.facts.IsSettled = known.Digest != "" && p.settled.IsValid(basis, p.started) && k.checkOwner(ctx, kyma) == nil
	return p
}

// copyKyma replaces the cached Kyma with a copy that can be modified.
func (p *pass) copyKyma() {
	if p.before == nil {
		p.kyma = p.kyma.DeepCopy()
		p.before = p.kyma.DeepCopy()
	}
}

// takePendingWork makes this reconcile responsible for the Kyma's pending work. Later changes become pending work for
// the next reconcile. Additional calls have no effect.
func (k *Kymas) takePendingWork(p *pass) {
	if !p.hasTakenPending {
		p.hasTakenPending = true
		p.pending = k.fleet.TakePending(p.name)
	}
}

func (k *Kymas) readNewestDigest(ctx context.Context, p *pass) {
	known := k.reports.lastKnown(p.kyma)
	if k.reports.isAnnounced(p.kyma, known) {
		p.facts.Newest = reconcile.No // the next actions fetch the report without reading its digest first
		return
	}
	answer := k.reports.askDigest(ctx, p.kyma, known, k.maxReportAge(p.kyma, false))
	if answer.err != nil || answer.digest != known.Digest {
		p.answer, p.facts.Newest = &answer, reconcile.No
		return
	}
	p.newest, p.facts.Newest = known, reconcile.Yes
	p.newest.AskedAt = answer.askedAt
}

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

func (k *Kymas) checkAdmission(ctx context.Context, p *pass) {
	kyma := p.kyma
	p.status = ingest.Facts{Generation: kyma.Generation, Finished: phase.IsFinished(kyma)}
	if p.status.PublishError = k.refusalReason(ctx, p); p.status.PublishError != nil {
		p.facts.Admitted = reconcile.No
		return
	}
	p.facts.Admitted = reconcile.Yes
	p.input.Version = kyma.ResourceVersion // adding the finalizer has changed the resource version
	// The comparison in canPostpone is expensive. It is only necessary before the first report is read, because later
	// reads cannot be postponed.
	known := k.reports.lastKnown(kyma)
	if p.facts.HasView && known.AskedAt.IsZero() && k.canPostpone(p.before, kyma, p.status, p.input) {
		p.isFirstCheck = known.PostponedTo.IsZero()
		p.postponedTo = k.reports.postponeRead(kyma, k.firstPoll(kyma))
		p.facts.CanPostpone = p.started.Before(p.postponedTo)
	}
}

// refusalReason returns the reason why the publisher must not publish for the Kyma, or nil. It also sets the parts of
// the status that do not depend on a report.
func (k *Kymas) refusalReason(ctx context.Context, p *pass) (err error) {
	if p.status.SilenceTimeout, p.status.IsCarried, err = p.rules.SilenceTimeoutFor(p.kyma); err != nil &&
		!p.facts.IsDeleted {
		return err
	}
	if err := k.ensureOwner(ctx, p.kyma, p.rules); err != nil {
		return err
	}
	plan.RecordOwner(p.kyma)
	return takeover.Inherit(ctx, k.uncached, p.kyma)
}

// checkBundle checks whether the published bundle still matches the Kyma. It does not read the report.
func (k *Kymas) checkBundle(ctx context.Context, p *pass) {
	k.takePendingWork(p)
	// If the check below does not succeed, the next action reads the report.
	p.facts.Bundle = reconcile.No
	view := p.input.View
	request, err := view.Request(p.rules, p.kyma, nil)
	if err != nil {
		return
	}
	in := publish.Input{Runtime: p.rules.Runtime(p.kyma, nil), Request: request, Catalog: view.Catalog}
	if rests, err := k.Publisher.IsSettled(ctx, k.fleet.PublishRecord(p.kyma), in); err == nil && rests {
		p.facts.Bundle = reconcile.Yes
	}
}

func (k *Kymas) fetchNewestReport(ctx context.Context, p *pass) {
	fresh := k.PollInterval / 2
	p.remainingDelay = 0 // a reconcile on an operator's request ignores the backoff
	if p.facts.HasView {
		k.takePendingWork(p)
		fresh = k.maxReportAge(p.kyma, p.pending)
	}
	if p.requested != "" && p.facts.HasView {
		k.fleet.PublishRecord(p.kyma).RequestCheck()
	}
	newest, err := k.fetchReport(ctx, p.kyma, p.rules, fresh, p.answer)
	p.newest, p.facts.Report = newest, reconcile.Yes
	if err == nil {
		p.input.Report = newest.ContentDigest()
		p.facts.IsUnchanged = p.settled.IsValid(p.input, k.Now())
		return
	}
	down, why := k.recordFailure(ctx, p, err)
	if p.newest.ReadError = why; down || !p.facts.HasView {
		p.facts.Report = reconcile.Down
	}
}

// recordFailure starts or extends a backoff after a failed registry request. isDown is true if the whole registry is
// down. cause is the error for the Kyma's status.
func (k *Kymas) recordFailure(ctx context.Context, p *pass, err error) (isDown bool, cause error) {
	p.remainingDelay, isDown = k.backoff.recordFailure(ctx, p.name, k.Now(), err)
	return isDown, withoutDetails(err)
}

// withoutDetails removes details such as ports and times from an error. Otherwise, the condition would change in every
// reconcile.
func withoutDetails(err error) error {
	if response := store.ResponseError(err); response != nil {
		return reason.With(reason.RegistryNotAnswering, response)
	}
	return reason.Errorf(reason.RegistryNotAnswering,
		"the registry responds, but the requests for this runtime fail: see the publisher's log")
}

func (k *Kymas) renewBundle(ctx context.Context, p *pass) error {
	k.applyReport(p.kyma, p.newest)
	runtime := p.rules.Runtime(p.kyma, p.newest.Accepted)
	newest, pushed, err := k.Publisher.Renew(ctx, k.fleet.PublishRecord(p.kyma), runtime)
	p.facts.Renewed, p.renewed = reconcile.Yes, newest
	switch {
	case errors.Is(err, publish.ErrPushNotAllowed):
		return err // another process now publishes for this runtime
	case err != nil:
		p.facts.Renewed = reconcile.No
		if store.IsUnavailable(err) {
			if down, _ := k.recordFailure(ctx, p, err); down {
				p.facts.Renewed = reconcile.Down
			}
		}
		if errors.Is(err, publish.ErrWouldBeRefused) {
			p.renewError = err // the Kyma's status contains the error
			return nil
		}
		ctrl.LoggerFrom(ctx).Error(err, "failed to renew a bundle while publishing is on hold for a commit", "runtime",
			plan.RuntimeID(p.kyma))
		return nil
	}
	if pushed {
		bundlesPublished.WithLabelValues(string(plan.ReasonRenewalDue)).Inc()
		if k.Notify != nil {
			k.Notify(plan.RuntimeID(p.kyma))
		}
	}
	return nil
}

// recordReport adds the report's data to the Kyma's status in memory and to the input of the next bundle.
func (k *Kymas) recordReport(ctx context.Context, p *pass) (err error) {
	kyma, facts, newest := p.kyma, &p.status, p.newest
	if p.remainingDelay == 0 {
		k.applyReport(kyma, newest)
	}
	p.runtime = p.rules.Runtime(kyma, newest.Accepted)
	facts.UnrecordedUntil = k.reports.unrecordedUntil(kyma)
	facts.Report, facts.ReportRefused, facts.ReportUnread, facts.IsDeleting = newest.Accepted, newest.Refused,
		newest.ReadError, p.runtime.IsDeleting
	if facts.SecretsError, err = k.addSecrets(ctx, kyma, &p.runtime, newest); err != nil {
		return err
	}
	p.facts.Recorded = reconcile.Yes
	p.facts.MustPersist = mustPersist(p.before.Status.Runtime, kyma.Status.Runtime)
	return nil
}

// mustPersist reports whether a status contains new data that must survive a crash, such as the agent's new key. The
// publisher cannot get this data a second time.
func mustPersist(before, after *v1beta2.RuntimeStatus) bool {
	if after == nil {
		return false
	}
	if before == nil {
		before = &v1beta2.RuntimeStatus{}
	}
	return cloneInstance(before) != cloneInstance(after) ||
		!equality.Semantic.DeepEqual(before.Assignment, after.Assignment) ||
		!slices.Equal(before.Secrets, after.Secrets) || thumbprintOf(before.Key) != thumbprintOf(after.Key) ||
		!equality.Semantic.DeepEqual(before.Takeover, after.Takeover)
}

func cloneInstance(s *v1beta2.RuntimeStatus) string {
	if s.Agent == nil {
		return ""
	}
	return s.Agent.Clone
}

func thumbprintOf(key *v1beta2.RuntimeKey) string {
	if key == nil {
		return ""
	}
	return key.Thumbprint
}

// publishBundle resolves the Kyma's request, and pushes a new bundle if necessary.
func (k *Kymas) publishBundle(ctx context.Context, p *pass) error {
	kyma, facts := p.kyma, &p.status
	view := p.input.View
	request, err := view.Request(p.rules, kyma, facts.Report)
	if err == nil {
		err = plan.CheckClone(kyma)
	}
	if err == nil {
		p.outcome, err = k.Publisher.Publish(ctx, k.fleet.PublishRecord(kyma), publish.Input{
			Runtime: p.runtime, Request: request, Catalog: view.Catalog, IsCurrent: k.decisionCheck(p, request),
		})
	}
	if p.outcome.IsPushed {
		k.fleet.EditCurrent(kyma, func(r *fleetstate.Runtime) { r.CountPush(k.Now()) })
		if k.Notify != nil {
			k.Notify(p.runtime.ID)
		}
	}
	facts.Problems = slices.Concat(p.outcome.Problems, p.outcome.Remarks)
	facts.Removals, facts.IsDeleting = p.outcome.Removals, facts.IsDeleting && !p.outcome.KeepsDeleted
	facts.SecretsError = errors.Join(facts.SecretsError, p.outcome.SecretsError)
	facts.SealedRemovals = p.outcome.SealedRemovals
	facts.OmittedFeatures, facts.Deviation, facts.IsConsistent = p.outcome.OmittedFeatures, p.outcome.Deviation,
		p.outcome.IsChecked
	k.announceDeviation(ctx, kyma, p.outcome.Deviation)
	p.facts.Published = reconcile.Yes
	switch {
	case err == nil:
		facts.Published, facts.SelectedVersions = &p.outcome.Published,
			view.SelectedVersions(p.runtime.ID, p.outcome.Published, kyma)
		facts.EndedWaves = view.EndedWaves(p.runtime.ID, p.outcome.Published, facts.SelectedVersions)
		facts.Templates = view.Catalog.Templates(p.outcome.Published.TemplateNames()...)
	case errors.Is(err, publish.ErrPushNotAllowed), errors.Is(err, publish.ErrOutdatedDecision):
		return err // another process now publishes for this runtime, or the next reconcile uses the new decisions
	case store.IsUnavailable(err):
		var down bool
		if down, facts.PublishError = k.recordFailure(ctx, p, err); down {
			p.facts.Published = reconcile.Down
		} else {
			p.facts.Published = reconcile.No
			publishFailures.Inc()
		}
	default:
		facts.PublishError = err
		if facts.Kept, err = k.Publisher.Newest(ctx, k.fleet.PublishRecord(kyma), p.runtime); err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("failed to read the runtime's bundle", "error", err.Error())
		}
		if _, refused := store.StatusOf(facts.PublishError); refused {
			// Start a backoff. Otherwise, every poll would repeat the refused write.
			k.recordFailure(ctx, p, facts.PublishError)
			facts.PublishError = reason.With(reason.RegistryNotAnswering, facts.PublishError)
		}
		publishFailures.Inc()
	}
	return nil
}

// decisionCheck returns a function that reports whether the request is still based on the current catalog and rollouts.
// It returns nil for a bundle that is published while the catalog is changing.
func (k *Kymas) decisionCheck(p *pass, request resolve.Request) func() bool {
	if p.rules.IsChanging {
		return nil
	}
	return func() bool { return p.input.View.IsCurrent(k.currentView(), p.kyma, request) }
}
