package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/schema/kymaschema"
)

// indexRuntime is the name of the cache indexes that find objects by runtime ID.
const indexRuntime = "runtime"

// eventSource is the name of the publisher in Events.
const eventSource = "kcp-publisher"

// New returns the Kyma controller and adds all of a publisher's controllers to the manager.
func New(mgr ctrl.Manager, o Options) (*Kymas, error) {
	schema, err := kymaschema.New()
	if err != nil {
		return nil, err
	}
	recorder, now, place := mgr.GetEventRecorder(eventSource), o.Publish.Now, o.Publish.Place
	api := mgr.GetClient()
	if !o.TrustAuthors {
		api = restrictSettings(api, recorder, now)
	}
	fleet := fleetstate.New()
	catalog := newCatalog(mgr, o, fleet)
	watchers := &Watchers{
		Client: mgr.GetClient(), Namespace: o.Namespace, onChange: catalog.reconcileAll, isReadOnly: o.Remote != nil,
		now: now,
	}
	planner := newRemotePlanner(mgr, o, fleet, watchers)
	if planner != nil && planner.Git != nil {
		o.Git = planner
	}
	o.Publish.OnRestored = AnnounceRestored
	removals := newRemovals(o, api, mgr.GetAPIReader(), recorder)
	o.Publish.DecideRemovals = removals.decideRemovals
	publisher, err := publish.New(o.Publish)
	if err != nil {
		return nil, err
	}
	secrets, pullSecrets, err := newSecretCaches(mgr, o)
	if err != nil {
		return nil, err
	}
	reports, settings := newReports(place, now, fleet, o.Slimmer), o.Rules.Settings
	k := &Kymas{
		Options: o, Client: api, Events: recorder, Publisher: publisher, Catalog: catalog, Place: place,
		Keys: newKeys(mgr, o, publisher, catalog), Watchers: watchers, Planner: planner, Now: now, secrets: secrets,
		pullSecrets: pullSecrets, uncached: mgr.GetAPIReader(), fleet: fleet, reports: reports,
		Rollouts: &Rollouts{
			Client: api, Events: recorder, Catalog: catalog, Interval: min(o.PollInterval, rolloutInterval), Now: now,
			lastReport: reports.lastReport, share: o.Share, remote: planner,
			maxQuiet: maxQuietTime(settings.PollInterval.Duration, settings.ReportInterval.Duration, o.PollInterval),
		},
		backoff: registryBackoff{
			fleet: fleet, checkRegistry: func(ctx context.Context) error { return store.Ping(ctx, place) },
		},
		counts:      o.Metrics.addPart(fleet, func() bool { return catalog.Snapshot() != nil }),
		checkReport: func(report bundle.Report) error { return ingest.Check(schema, report) },
	}
	if err := errors.Join(mgr.Add(every(unusedTime, removals.dropUnused)), k.setUpShared(mgr), k.setUpPlanning(mgr),
		k.setUp(mgr, secrets, pullSecrets)); err != nil {
		return nil, err
	}
	return k, nil
}

func newCatalog(mgr ctrl.Manager, o Options, fleet *fleetstate.Fleet) *Catalog {
	c := &Catalog{
		Changes: o.Changes, Reader: mgr.GetClient(), Namespace: o.Namespace, Restricted: o.Restricted,
		Reconciles: make(chan event.GenericEvent), changed: make(chan event.GenericEvent, 1), fleet: fleet,
	}
	if o.Share.IsFirst() {
		c.Events = mgr.GetEventRecorder(eventSource)
	}
	return c
}

func newKeys(mgr ctrl.Manager, o Options, publisher *publish.Publisher, catalog *Catalog) *Keys {
	k := &Keys{KeyOptions: o.KeyFolder, Publisher: publisher, onChange: catalog.reconcileAll}
	if o.Share.IsFirst() {
		k.Events, k.Namespace = mgr.GetEventRecorder(eventSource), o.Namespace
		k.rootAnnotator = rootAnnotator{
			reader: mgr.GetAPIReader(), writer: mgr.GetClient(),
			lease: client.ObjectKey{Namespace: o.Namespace, Name: o.KeyFolder.Lease},
		}
	}
	return k
}

// newRemotePlanner returns a shard's connection to the planner and to the repository that the planner follows. It
// returns nil without shards.
func newRemotePlanner(mgr ctrl.Manager, o Options, fleet *fleetstate.Fleet, watchers *Watchers) *RemotePlanner {
	if o.Remote == nil {
		return nil
	}
	return &RemotePlanner{RemoteOptions: *o.Remote, fleet: fleet, caches: &caches{
		cached: mgr.GetClient(), direct: mgr.GetAPIReader(), namespace: o.Namespace, kymas: o.Share.CacheSelector(),
		watchers: watchers,
	}}
}

// newSecretCaches returns the caches for runtimes' Secrets and for the image pull Secret. They are nil if the publisher
// does not read these Secrets.
func newSecretCaches(mgr ctrl.Manager, o Options) (secrets, pullSecrets cache.Cache, err error) {
	if o.SecretsNamespace != "" {
		if secrets, err = newSecretCache(mgr, o.SecretsNamespace); err != nil {
			return nil, nil, fmt.Errorf("set up the cache of Secrets for runtimes: %w", err)
		}
	}
	if o.ImagePullSecret.Name != "" {
		if pullSecrets, err = newPullSecretCache(mgr, o.ImagePullSecret); err != nil {
			return nil, nil, fmt.Errorf("set up the cache of the image pull Secret: %w", err)
		}
	}
	return secrets, pullSecrets, nil
}

// setUpShared adds the controllers that run in every publisher, with and without shards.
func (k *Kymas) setUpShared(mgr ctrl.Manager) error {
	return errors.Join(
		indexRuntimes(mgr),
		mgr.Add(every(dropInterval, k.Slimmer.dropFreed)),
		setUpCatalog(mgr, k.Catalog),
		setUpRollouts(mgr, k.Rollouts),
		mgr.Add(k.Keys),
		setUpSignatures(mgr, k.Options, k.Publisher.Components, k.Catalog),
		setUpWatchers(mgr, k.Watchers),
	)
}

// every returns a Runnable that calls do at once and then at the given interval, until its context ends.
func every(interval time.Duration, do func()) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		wait.UntilWithContext(ctx, func(context.Context) { do() }, interval)
		return nil
	})
}

// setUpPlanning adds the controllers that run only once per fleet. In a shard, it instead adds the connection to the
// planner, which runs these controllers.
func (k *Kymas) setUpPlanning(mgr ctrl.Manager) error {
	if p := k.Planner; p != nil {
		follow := func(ctx context.Context) error { return p.requestEvaluations(ctx, k.Catalog.changed) }
		return errors.Join(mgr.Add(reportTimesSender{k}), mgr.Add(manager.RunnableFunc(follow)))
	}
	return errors.Join(setUpFinalizers(mgr, k.Events), setUpUnreconciled(mgr, k.Catalog.Namespace, k.Share,
		k.PollInterval, k.Now), setUpTrains(mgr, &Trains{
		client: k.Client, uncached: mgr.GetAPIReader(), events: k.Events, catalog: k.Catalog, mayWrite: k.Publish.MayPush,
		now: k.Now, isPartial: k.Share.HasSelector(), interval: min(6*k.PollInterval, trainInterval),
		isReporting: k.isReporting,
	}))
}

// maxRetryDelay is the maximum delay before a retry after an error from the API server. With controller-runtime's
// default of 17 minutes, statuses would stay outdated for a long time after the API server responds again.
const maxRetryDelay = time.Minute

func newRetryLimiter() workqueue.TypedRateLimiter[ctrl.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](5*time.Millisecond, maxRetryDelay)
}

func (k *Kymas) setUp(mgr ctrl.Manager, secrets, pullSecrets cache.Cache) error {
	// Ignore changes to the status, because the publisher itself writes it.
	changes := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{},
		predicate.AnnotationChangedPredicate{})
	controlled := ctrl.NewControllerManagedBy(mgr).Named("kyma").
		For(&v1beta2.Kyma{}, builder.WithPredicates(changes)).
		WatchesRawSource(source.Channel(k.Catalog.Reconciles, k.priorityHandler())).
		WithOptions(controller.Options{MaxConcurrentReconciles: k.Concurrency, RateLimiter: newRetryLimiter()})
	if secrets != nil {
		controlled.WatchesRawSource(source.Kind(secrets, &corev1.Secret{},
			handler.TypedEnqueueRequestsFromMapFunc(k.requestsForSecret)))
	}
	if pullSecrets != nil {
		controlled.WatchesRawSource(source.Kind(pullSecrets, &corev1.Secret{},
			handler.TypedEnqueueRequestsFromMapFunc(k.requestsForAll)))
	}
	return controlled.Complete(k)
}

// setUpSignatures adds the controller that updates the verifier's keys and policy, if a verifier is configured.
func setUpSignatures(mgr ctrl.Manager, o Options, components *component.Reader, catalog *Catalog) error {
	if o.Signatures.Verifier == nil {
		return nil
	}
	keys := &signatureKeys{
		SignatureOptions: o.Signatures, components: components, reader: mgr.GetClient(), onChange: catalog.reconcileAll,
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("signatures").Watches(&corev1.Secret{}, batchEvents()).Complete(keys)
	if err != nil {
		return err
	}
	return mgr.Add(keys)
}

// rolloutPredicate selects changes to Kymas that can advance a Rollout.
var rolloutPredicate = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return plan.AffectsRollouts(e.ObjectOld.(*v1beta2.Kyma), e.ObjectNew.(*v1beta2.Kyma))
}}

func indexRuntimes(mgr ctrl.Manager) error {
	return mgr.GetFieldIndexer().IndexField(context.Background(), &v1beta2.Kyma{}, indexRuntime,
		func(object client.Object) []string {
			return []string{plan.ClaimedRuntimeID(object.(*v1beta2.Kyma))}
		})
}

func setUpCatalog(mgr ctrl.Manager, c *Catalog) error {
	return ctrl.NewControllerManagedBy(mgr).Named("catalog").
		WatchesRawSource(source.Channel(c.rereads, batchEvents())).
		Watches(&v1beta2.ModuleTemplate{}, batchEvents()).
		Watches(&v1beta2.ModuleReleaseMeta{}, batchEvents()).
		Complete(c)
}

// setUpWatchers adds the controller for Watchers. An initial event triggers the first read even without Watchers.
func setUpWatchers(mgr ctrl.Manager, w *Watchers) error {
	return ctrl.NewControllerManagedBy(mgr).Named("watchers").
		WatchesRawSource(source.Channel(initialEvent(), batchEvents())).
		Watches(&v1beta2.Watcher{}, batchEvents(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(w)
}

// setUpRollouts adds the controller for Rollouts. Any report from a runtime can advance a Rollout. A shard also reacts
// to Rollouts' status, because the planner writes it.
func setUpRollouts(mgr ctrl.Manager, r *Rollouts) error {
	steps := []builder.WatchesOption{builder.WithPredicates(predicate.GenerationChangedPredicate{})}
	if r.remote != nil {
		steps = nil
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("rollouts").
		WatchesRawSource(source.Channel(r.Catalog.changed, batchEventsFor(0))).
		Watches(&fleet.RolloutPolicy{}, batchEvents(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&fleet.Rollout{}, batchEvents(), steps...).
		Watches(&v1beta2.Kyma{}, batchEventsFor(reportDelay), builder.WithPredicates(rolloutPredicate)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller rollouts: %w", err)
	}
	return nil
}
