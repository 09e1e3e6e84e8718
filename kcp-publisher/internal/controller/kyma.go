// Package controller runs the control plane's side in a cluster: it watches Kymas, ModuleTemplates and ModuleReleaseMetas and
// keeps each runtime's bundle and each Kyma's status in line. Its controllers read, call the pure packages and write.
package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// Kymas keeps every runtime's bundle and every Kyma's status in line.
type Kymas struct {
	Client    client.Client
	Events    events.EventRecorder
	Publisher *publish.Publisher
	Catalog   *Catalog
	Place     store.Store
	Keys      *Keys
	// PollInterval is how often a runtime's report is asked for of which something is awaited.
	PollInterval time.Duration
	// DeletionTimeout is how long a deleted Kyma waits for its runtime to be empty.
	DeletionTimeout time.Duration
	// Rules are those that do not change while the publisher runs: settings, maintenance and the allowed silence.
	Rules      plan.Rules
	Signatures SignatureKeys
	// Source returns the commit that the control plane has, nil for none; it is nil itself where no repository is followed.
	Source   func() *bundle.Source
	Watchers Watchers
	Rollouts Rollouts
	// Shard is which part of the fleet this is, nil for all of it.
	Shard *Shard
	// SecretsNamespace is where the Secrets are that are for runtimes; empty when none are to be read.
	SecretsNamespace string
	secrets          client.Reader // of that namespace, nil without
	// ImagePullSecret is the Secret that all runtimes get to pull their modules' images; empty for none.
	ImagePullSecret types.NamespacedName
	pullSecrets     client.Reader // of that Secret, nil without
	direct          client.Reader // of what is read too seldom to be watched
	unaddressed     sync.Map      // Secrets for runtimes that no Kyma has, as it was logged, by namespace and name
	// Notify tells the agents of a runtime that a bundle was pushed for it, nil for nobody. It returns at once.
	Notify func(runtime string)
	Now    func() time.Time
	// KymaEvents are which Events are made of what happens to runtimes; all unless it is set.
	KymaEvents KymaEvents

	// fleet has a record of each runtime.
	fleet   *fleetstate.Fleet
	backoff registryBackoff
	counted part
	reports *reports
	// checkReport says what in a report the API server would refuse.
	checkReport func(bundle.Report) error
}

// remember makes a fleet the one that all parts record runtimes in.
func (k *Kymas) remember(fleet *fleetstate.Fleet) {
	k.fleet, k.backoff.fleet, k.counted.fleet, k.Catalog.fleet = fleet, fleet, fleet, fleet
	k.reports = newReports(k.Place, k.Now, fleet)
	if k.Shard != nil {
		k.Shard.fleet = fleet
	}
}

const (
	// recordedSoon is how long a Kyma waits that needs a bundle and whose status had to be written first.
	recordedSoon = 50 * time.Millisecond
	// statusSettles is how long the status of a Kyma is put off after its bundle was pushed, at least: other runtimes' bundles
	// go first.
	statusSettles = 300 * time.Millisecond
	// holdSettles is how long a change of the control plane may take before Kymas are put off for longer.
	holdSettles = 5 * time.Second
)

// Reconcile brings the registry in line with what one Kyma asks for, and the Kyma with what its runtime reports. A Kyma that was written since it was
// read is looked at again, and that is no failure: the cache may be behind this publisher's own write.
func (k *Kymas) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := k.reconcile(ctx, req)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: jitter.JitteredIntervalDuration(min(statusSettles, k.PollInterval))}, nil
	}
	return result, err
}

func (k *Kymas) reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	kyma, err := k.read(ctx, req)
	if kyma == nil || err != nil {
		return ctrl.Result{}, err
	}
	// Before what they count the changes of is read.
	all, own := k.Catalog.marked.Load(), k.fleet.Of(kyma).Changed
	rules, view := k.resolvedBy(kyma)
	this := fleetstate.Basis{Version: kyma.ResourceVersion, View: view, Source: rules.Source, All: all, Own: own}
	result, answer, quiet := k.poll(ctx, req.NamespacedName, kyma, this)
	if quiet {
		return result, nil
	}
	kyma = kyma.DeepCopy() // it is the cache's
	if view == nil {
		return k.putOff(ctx, kyma, rules)
	}
	if gone, err := k.ensureFinalizer(ctx, kyma); gone || err != nil {
		return ctrl.Result{}, err
	}
	before := kyma.DeepCopy()
	if wait := k.backoff.wait(req.NamespacedName, k.Now()); wait > 0 && plan.Requested(kyma) == "" {
		return k.registryUnavailable(ctx, before, kyma, wait)
	}
	facts, err := k.admit(ctx, kyma, rules)
	if err != nil {
		return k.refuse(ctx, before, kyma, facts, err)
	}
	this.Version = kyma.ResourceVersion // the finalizer may be new
	if result, rests := k.resume(ctx, req.NamespacedName, before, kyma, rules, facts, this); rests {
		return result, nil
	}
	return k.look(ctx, req, before, kyma, rules, facts, this, answer)
}

// look asks for the newest report of a Kyma's runtime and publishes what follows, unless an equal look found nothing to do. This is what it depends on,
// but for the report; answer is what the registry was asked of it already, nil for nothing.
func (k *Kymas) look(ctx context.Context, req ctrl.Request, before, kyma *v1beta2.Kyma, rules plan.Rules, facts ingest.Facts, this fleetstate.Basis, answer *answer) (ctrl.Result, error) {
	due, published := k.take(req.NamespacedName), false
	defer func() { k.pendingAfter(req.NamespacedName, published || !due) }()
	started, requested := k.Now(), plan.Requested(kyma)
	if requested != "" {
		k.published(kyma).Recheck()
	}
	newest, err := k.fetchReport(ctx, kyma, rules, k.freshEnough(kyma, due), answer)
	reported := !newest.Asked.Before(started)
	this.Report = newest.Content()
	if settled := k.fleet.Of(kyma).Settled; err == nil && settled.Stands(this, k.Now()) && requested == "" {
		published = true
		k.backoff.answered(ctx, req.NamespacedName, started, reported, reported)
		return k.lookAgain(kyma, newest.Asked, settled.Until), nil
	}
	if err == nil {
		k.noteReport(kyma, newest)
	}
	var alone time.Duration // how long this runtime waits by itself
	if err != nil {
		var all bool
		if alone, all, newest.Unread = k.failed(ctx, req.NamespacedName, err); all {
			return k.registryUnavailable(ctx, before, kyma, alone)
		}
	}
	runtime, err := k.runtime(ctx, before, kyma, rules, newest, &facts)
	if err != nil {
		return ctrl.Result{}, err
	}
	outcome, err := k.publish(ctx, kyma, rules, runtime, this.View, &facts)
	if errors.Is(err, publish.ErrMayNotPush) {
		return ctrl.Result{}, err // another process speaks for the runtime now
	}
	if err != nil {
		var all bool
		if alone, all, facts.PublishError = k.failed(ctx, req.NamespacedName, err); all {
			return k.registryUnavailable(ctx, before, kyma, alone)
		}
		publishFailures.Inc()
	}
	published = err == nil
	if done, err := k.finalize(ctx, kyma, facts); done || err != nil {
		return ctrl.Result{}, err
	}
	var until time.Time
	if !notedLater(outcome) {
		kyma.Status = status(kyma.Status, runtime, facts, k.Now())
		handled(kyma, requested)
		until = settles(before, kyma, facts, outcome, k.Now(), k.PollInterval)
	}
	k.fleet.EditOf(kyma, func(r *fleetstate.Runtime) { r.Settled = fleetstate.Settled{Basis: this, Until: until} })
	result, err := k.record(ctx, before, kyma, outcome, newest.Asked, until)
	if alone > 0 {
		result.RequeueAfter = alone
	} else {
		k.backoff.answered(ctx, req.NamespacedName, started, outcome.Pushed || reported, reported)
	}
	return result, err
}

// refuse says why nothing may be published for a Kyma, or lets a deleted one go.
func (k *Kymas) refuse(ctx context.Context, before, kyma *v1beta2.Kyma, facts ingest.Facts, why error) (ctrl.Result, error) {
	if done, err := k.finalizeRefused(ctx, kyma); done || err != nil {
		return ctrl.Result{}, err
	}
	k.dropPending(client.ObjectKeyFromObject(kyma)) // it waits for an operator
	facts.PublishError = why
	requested := plan.Requested(kyma)
	kyma.Status = ingest.Status(kyma.Status, facts, k.Now())
	handled(kyma, requested)
	return k.record(ctx, before, kyma, publish.Outcome{}, k.Now(), time.Time{})
}

// putOff lets a Kyma wait that cannot be resolved, because the control plane is not known yet or is changed by halves. Where that lasts,
// what the runtime reports is noted all the same, and silence is told: only publishing waits.
func (k *Kymas) putOff(ctx context.Context, kyma *v1beta2.Kyma, rules plan.Rules) (ctrl.Result, error) {
	if max(k.Catalog.changingFor(), k.Shard.unannouncedFor()) < holdSettles {
		return ctrl.Result{RequeueAfter: catalogSettles}, nil
	}
	k.Catalog.waited.Store(true)
	before, request, started := kyma.DeepCopy(), client.ObjectKeyFromObject(kyma), k.Now()
	if wait := k.backoff.wait(request, started); wait > 0 {
		return k.registryUnavailable(ctx, before, kyma, wait)
	}
	result := ctrl.Result{RequeueAfter: jitter.JitteredIntervalDuration(k.PollInterval)}
	facts, err := k.admit(ctx, kyma, rules)
	if err != nil {
		return result, nil // it is told once the Kyma can be resolved
	}
	newest, err := k.fetchReport(ctx, kyma, rules, k.PollInterval/2, nil)
	if err != nil {
		wait, _ := k.backoff.failed(ctx, request, k.Now(), err)
		return k.registryUnavailable(ctx, before, kyma, wait)
	}
	k.noteReport(kyma, newest)
	k.backoff.answered(ctx, request, started, false, !newest.Asked.Before(started))
	kyma.Status, _ = ingest.Unheard(kyma.Status, kyma.Generation, facts.Silence, facts.Carried, k.reports.unnoted(kyma), k.Now())
	return k.written(ctx, before, kyma, result)
}

// failed notes that the registry did not answer for a Kyma, and returns for how long to wait: all Kymas, or this one alone for that reason.
func (k *Kymas) failed(ctx context.Context, kyma types.NamespacedName, err error) (wait time.Duration, all bool, why error) {
	wait, all = k.backoff.failed(ctx, kyma, k.Now(), err)
	return wait, all, unanswered(err)
}

// unanswered is why the registry did not answer for one runtime, in the same words each time: a condition with a port or a time in it
// would be written again at every pass.
func unanswered(err error) error {
	if answer := store.WithoutDetail(err); answer.Error() != err.Error() {
		return answer
	}
	return errors.New("the registry answers, but not the requests for this runtime: see the publisher's log")
}

// read returns the Kyma as the cache holds it, or nil when there is nothing to do: it is gone or to be left alone.
func (k *Kymas) read(ctx context.Context, req ctrl.Request) (*v1beta2.Kyma, error) {
	kyma := &v1beta2.Kyma{}
	err := k.Client.Get(ctx, req.NamespacedName, kyma, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		k.forget(req.NamespacedName)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !k.Shard.owns(kyma) {
		k.forget(req.NamespacedName) // another shard looks after it
		return nil, nil
	}
	if plan.Skipped(kyma) {
		k.dropPending(req.NamespacedName)
		k.count(kyma)
		return nil, nil
	}
	return kyma, nil
}

// forget drops the record of a Kyma that is gone, or that belongs to another shard.
func (k *Kymas) forget(kyma types.NamespacedName) {
	if runtimeStates.drop(&k.counted, kyma).Backoff != nil {
		registryFailing.Add(-1)
	}
}

// resolvedBy returns the rules and the view that a Kyma is resolved by; the view is nil while it has to wait.
func (k *Kymas) resolvedBy(kyma *v1beta2.Kyma) (plan.Rules, *plan.View) {
	// The source is read before it is known that nothing changes: no bundle names a commit whose change began meanwhile.
	rules, view := k.rules(), k.view()
	if view == nil {
		view = k.lastView(kyma)
		rules.Source = nil // a bundle that is made all the same is of no commit
	}
	return rules, view
}

// view returns what Kymas are resolved by, nil while that is not known or about to change.
func (k *Kymas) view() *plan.View {
	view := k.Rollouts.View()
	_, known := k.Watchers.Snapshot()
	if view == nil || !known || k.Catalog.changing() || view.Catalog != k.Catalog.Snapshot() {
		return nil
	}
	return view
}

// rules returns what holds for all runtimes now.
func (k *Kymas) rules() plan.Rules {
	rules := k.Rules
	rules.Watchers, _ = k.Watchers.Snapshot()
	rules.Root = k.Publisher.Root()
	if k.Source != nil {
		rules.Source = k.Source()
	}
	return rules
}

// admit returns what the Kyma itself says of its runtime. The error is why nothing may be published to it.
func (k *Kymas) admit(ctx context.Context, kyma *v1beta2.Kyma, rules plan.Rules) (ingest.Facts, error) {
	facts := ingest.Facts{Generation: kyma.Generation, Finished: kyma.Labels[v1beta2.LabelTakeover] == v1beta2.TakeoverFinished}
	var err error
	if facts.Silence, facts.Carried, err = rules.Allowed(kyma); err != nil && kyma.DeletionTimestamp.IsZero() {
		return facts, err
	}
	if err := k.checkOwner(ctx, kyma); err != nil {
		return facts, err
	}
	plan.Begin(kyma)
	return facts, k.inherit(ctx, kyma)
}

// runtime returns what is known of the Kyma's runtime, and writes what has to be known before a bundle is made of it.
func (k *Kymas) runtime(ctx context.Context, before, kyma *v1beta2.Kyma, rules plan.Rules, newest fleetstate.Report, facts *ingest.Facts) (plan.Runtime, error) {
	runtime := rules.Runtime(kyma, newest.Accepted)
	facts.Unnoted = k.reports.unnoted(kyma)
	facts.Report, facts.ReportRefused, facts.ReportUnread, facts.Deleting = newest.Accepted, newest.Refused, newest.Unread, runtime.Deleting
	var err error
	if facts.SecretsError, err = k.addSecrets(ctx, kyma, &runtime, newest); err != nil {
		return runtime, err
	}
	return runtime, k.persistFirst(ctx, before, kyma)
}

// publish resolves what the Kyma asks for, pushes a bundle if one is needed, and notes what became of it. The error says that the registry
// did not answer.
func (k *Kymas) publish(ctx context.Context, kyma *v1beta2.Kyma, rules plan.Rules, runtime plan.Runtime, view *plan.View, facts *ingest.Facts) (publish.Outcome, error) {
	var outcome publish.Outcome
	request, err := rules.Request(kyma, facts.Report)
	if err == nil {
		view.Decide(runtime.ID, &request, kyma.Status.Runtime)
		outcome, err = k.Publisher.Publish(ctx, k.published(kyma), runtime, request, view.Catalog)
	}
	if outcome.Pushed && k.Notify != nil {
		k.Notify(runtime.ID)
	}
	facts.Problems = slices.Concat(outcome.Problems, outcome.Remarks)
	facts.SecretsError = errors.Join(facts.SecretsError, outcome.SecretsError)
	facts.LeftOut = outcome.LeftOut
	facts.Deviation, facts.Consistent = outcome.Deviation, outcome.Checked
	k.announceDeviation(ctx, kyma, outcome.Deviation)
	switch {
	case err == nil:
		facts.Published, facts.Given = &outcome.Published, view.Given(runtime.ID, outcome.Published, kyma.Status.Runtime)
		facts.Templates = view.Catalog.Templates(outcome.Published.Templates()...)
	case store.Unavailable(err), errors.Is(err, publish.ErrMayNotPush):
		return outcome, err
	default:
		publishFailures.Inc()
		facts.PublishError = err
	}
	return outcome, nil
}

// status returns the status that follows from the facts.
func status(before v1beta2.KymaStatus, runtime plan.Runtime, facts ingest.Facts, now time.Time) v1beta2.KymaStatus {
	if runtime.Secrets != nil && !runtime.Secrets.Partial {
		before.Runtime.Secrets = ingest.KnownSecrets(before.Runtime.Secrets, runtime.Secrets.All, facts)
	}
	return ingest.Status(before, facts, now)
}

// handled notes that a look at a Kyma was made that somebody asked for; requested is empty where nobody did.
func handled(kyma *v1beta2.Kyma, requested string) {
	if requested != "" {
		kyma.Status.LastHandledReconcileAt = requested
	}
}

// registryUnavailable says what is known of a runtime whose reports cannot be read because the registry is down: that is silence, too,
// and silence is never health. Nothing is written before the allowed silence is over. A deleted Kyma whose runtime is gone needs no registry.
func (k *Kymas) registryUnavailable(ctx context.Context, before, kyma *v1beta2.Kyma, wait time.Duration) (ctrl.Result, error) {
	if done, err := k.finalize(ctx, kyma, ingest.Facts{}); done || err != nil {
		return ctrl.Result{}, err
	}
	result := ctrl.Result{RequeueAfter: wait}
	silence, carried, _ := k.Rules.Allowed(kyma) // what is wrong with it is said when the registry is back
	k.noteReport(kyma, k.reports.remembered(kyma))
	after, silent := ingest.Unheard(kyma.Status, kyma.Generation, silence, carried, k.reports.unnoted(kyma), k.Now())
	if !silent {
		return result, nil
	}
	kyma.Status = after
	return k.written(ctx, before, kyma, result)
}
