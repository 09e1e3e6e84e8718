package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/schema/kymaschema"
)

// indexRuntime is the name of the index of Kymas by runtime ID.
const indexRuntime = "runtime"

func setUpSignatures(mgr ctrl.Manager, kymas *Kymas) error {
	keys := &kymas.Signatures
	if keys.Verifier == nil {
		return nil
	}
	keys.Reader = mgr.GetClient()
	keys.onChange = kymas.Catalog.reconcileAll
	err := ctrl.NewControllerManagedBy(mgr).Named("signatures").Watches(&corev1.Secret{}, batchEvents()).Complete(keys)
	if err != nil {
		return err
	}
	return mgr.Add(keys)
}

func setUpPlanning(mgr ctrl.Manager, kymas *Kymas) error {
	if err := setUpFinalizers(mgr, kymas.Events); err != nil {
		return err
	}
	trains := &kymas.Trains
	trains.catalog, trains.mayWrite, trains.now = kymas.Catalog, kymas.Publisher.MayPush, kymas.Now
	trains.isPartial = kymas.Share.HasSelector()
	return setUpTrains(mgr, trains, kymas.Client, kymas.PollInterval)
}

// setUpRemotePlanner connects a shard to the planner and to the repository that the planner follows.
func setUpRemotePlanner(mgr ctrl.Manager, kymas *Kymas) error {
	p := kymas.Planner
	p.caches = &caches{
		cached: mgr.GetClient(), direct: mgr.GetAPIReader(), namespace: kymas.Catalog.Namespace,
		kymas: kymas.Share.CacheSelector(), watchers: &kymas.Watchers,
	}
	kymas.HoldReason = p.Holding
	if p.Git != nil {
		kymas.Source, kymas.LastComparison, kymas.RequestComparison = p.Source, p.Compared, p.Git.Compare
		kymas.ApprovedByCommit = p.Approved
	}
	follow := func(ctx context.Context) error { return p.follow(ctx, kymas.Catalog.changed) }
	return errors.Join(mgr.Add(reportTimesSender{kymas}), mgr.Add(manager.RunnableFunc(follow)))
}

// Setup adds the controllers to the manager. concurrency is the maximum number of concurrent reconciles of Kymas.
func Setup(mgr ctrl.Manager, kymas *Kymas, concurrency int) error {
	if err := indexRuntimes(mgr); err != nil {
		return err
	}
	changed := make(chan event.GenericEvent)
	kymas.Events = mgr.GetEventRecorder("kcp-publisher")
	kymas.Client, kymas.uncached = mgr.GetClient(), mgr.GetAPIReader()
	if !kymas.TrustAuthors {
		kymas.Client = restrictSettings(kymas.Client, kymas.Events, kymas.Now)
	}
	kymas.setFleet(fleetstate.New(kymas.Publisher.DropRecord))
	kymas.Publisher.OnRestored, kymas.Publisher.Components.Restored = announceRestored, announceRestored
	kymas.backoff.checkRegistry = func(ctx context.Context) error { return store.Ping(ctx, kymas.Place) }
	schema, err := kymaschema.New()
	if err != nil {
		return err
	}
	kymas.checkReport = func(report bundle.Report) error { return ingest.Check(schema, report) }
	kymas.registerMetrics()
	kymas.Publisher.DecideRemovals = newRemovals(kymas).decideRemovals

	if kymas.Share.IsFirst() {
		kymas.Catalog.Events = kymas.Events
	}
	if err := mgr.Add(manager.RunnableFunc(kymas.Slimmer.run)); err != nil {
		return err
	}
	if err := setUpCatalog(mgr, kymas.Catalog, changed); err != nil {
		return err
	}
	r := &kymas.Rollouts
	r.Events, r.Catalog, r.Now, r.lastReport, r.share, r.remote = kymas.Events, kymas.Catalog, kymas.Now,
		kymas.reports.lastReport, kymas.Share, kymas.Planner
	settings := kymas.Rules.Settings
	r.maxQuiet = maxQuietTime(settings.PollInterval.Duration, settings.ReportInterval.Duration, kymas.PollInterval)
	if err := setUpRollouts(mgr, r, kymas.Client, kymas.PollInterval); err != nil {
		return err
	}
	if kymas.Planner != nil {
		if err := setUpRemotePlanner(mgr, kymas); err != nil {
			return err
		}
	}
	kymas.Keys.onChange = kymas.Catalog.reconcileAll
	if kymas.Share.IsFirst() {
		kymas.Keys.Events, kymas.Keys.Namespace = kymas.Events, kymas.Catalog.Namespace
		kymas.Keys.rootAnnotator = rootAnnotator{
			reader: mgr.GetAPIReader(), writer: mgr.GetClient(), lease: client.ObjectKey{
				Namespace: kymas.Catalog.Namespace, Name: kymas.Keys.Lease,
			},
		}
	}
	if err := mgr.Add(kymas.Keys); err != nil {
		return err
	}
	if err := setUpSignatures(mgr, kymas); err != nil {
		return err
	}
	kymas.Watchers.onChange, kymas.Watchers.isReadOnly = kymas.Catalog.reconcileAll, kymas.Planner != nil
	if err := setUpWatchers(mgr, &kymas.Watchers, kymas.Catalog.Namespace, kymas.Now); err != nil {
		return err
	}
	if kymas.Planner == nil { // with shards, the planner runs these controllers
		if err := setUpPlanning(mgr, kymas); err != nil {
			return err
		}
	}
	// Ignore changes of the status, because the publisher itself writes it.
	changes := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{},
		predicate.AnnotationChangedPredicate{})
	controlled := ctrl.NewControllerManagedBy(mgr).Named("kyma").
		For(&v1beta2.Kyma{}, builder.WithPredicates(changes)).
		WatchesRawSource(source.Channel(changed, kymas.priorityHandler())).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency})
	if kymas.SecretsNamespace != "" {
		secrets, err := newSecretCache(mgr, kymas.SecretsNamespace)
		if err != nil {
			return fmt.Errorf("set up the cache of Secrets for runtimes: %w", err)
		}
		kymas.secrets = secrets
		controlled.WatchesRawSource(source.Kind(secrets, &corev1.Secret{},
			handler.TypedEnqueueRequestsFromMapFunc(kymas.requestsForSecret)))
	}
	if kymas.ImagePullSecret.Name != "" {
		secrets, err := newPullSecretCache(mgr, kymas.ImagePullSecret)
		if err != nil {
			return fmt.Errorf("set up the cache of the image pull Secret: %w", err)
		}
		kymas.pullSecrets = secrets
		controlled.WatchesRawSource(source.Kind(secrets, &corev1.Secret{},
			handler.TypedEnqueueRequestsFromMapFunc(kymas.requestsForAll)))
	}
	return controlled.Complete(kymas)
}

// rolloutPredicate selects changes of Kymas that can advance a Rollout.
var rolloutPredicate = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return plan.AffectsRollouts(e.ObjectOld.(*v1beta2.Kyma), e.ObjectNew.(*v1beta2.Kyma))
}}

func indexRuntimes(mgr ctrl.Manager) error {
	return mgr.GetFieldIndexer().IndexField(context.Background(), &v1beta2.Kyma{}, indexRuntime,
		func(object client.Object) []string {
			return []string{plan.ClaimedRuntimeID(object.(*v1beta2.Kyma))}
		})
}

// setUpCatalog adds the controller for the catalog. The channel c.rereads contains an initial event, so that the first
// snapshot is created even if the catalog is empty.
func setUpCatalog(mgr ctrl.Manager, c *Catalog, changed chan event.GenericEvent) error {
	c.Reader = mgr.GetClient()
	c.Reconciles, c.rereads, c.changed = changed, initialEvent(), make(chan event.GenericEvent, 1)
	return ctrl.NewControllerManagedBy(mgr).Named("catalog").
		WatchesRawSource(source.Channel(c.rereads, batchEvents())).
		Watches(&v1beta2.ModuleTemplate{}, batchEvents()).
		Watches(&v1beta2.ModuleReleaseMeta{}, batchEvents()).
		Complete(c)
}

// setUpWatchers adds the controller for Watchers. An initial event triggers the first read even without Watchers.
func setUpWatchers(mgr ctrl.Manager, w *Watchers, namespace string, now func() time.Time) error {
	w.Client, w.Namespace, w.now = mgr.GetClient(), namespace, now
	return ctrl.NewControllerManagedBy(mgr).Named("watchers").
		WatchesRawSource(source.Channel(initialEvent(), batchEvents())).
		Watches(&v1beta2.Watcher{}, batchEvents(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(w)
}

// setUpRollouts adds the controller for Rollouts. Any report of a runtime can advance a Rollout. A shard also reacts to
// the status of Rollouts, because the planner writes it.
func setUpRollouts(mgr ctrl.Manager, r *Rollouts, api client.Client, pollInterval time.Duration) error {
	r.Client, r.Interval = api, min(pollInterval, rolloutInterval)
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

func initialEvent() chan event.GenericEvent {
	one := make(chan event.GenericEvent, 1)
	one <- event.GenericEvent{Object: &v1beta2.Kyma{}}
	return one
}
