package install

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/drift"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/rendering"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// Options configure the Installer. Content and Render are required. Other fields have defaults.
type Options struct {
	// Content contains the blobs that Manifests reference by digest.
	Content *contentstore.Store
	// Render renders content to objects, with limits for time and memory.
	Render func(context.Context, render.Input) ([]*unstructured.Unstructured, error)
	// Accounts selects each module's account. Default: the agent's own account.
	Accounts guard.Accounts
	// Signer signs the Manifests' records with the agent's key. Without a Signer, the installer does not remove
	// modules, because no removal record has a valid signature.
	Signer trust.Signer
	// Revisions contains the revisions of the Manifests' records. If nil, the installer accepts earlier records.
	Revisions *record.Revisions
	// Inventories contains the Manifest inventories that the installer or an earlier process wrote. Default: empty.
	Inventories *record.Inventories
	// Requeue receives the Manifests whose missing content is now available. The installer reconciles them. Requeue can
	// be nil.
	Requeue <-chan event.GenericEvent
	// IsIncomplete reports whether the agent is still writing a bundle's Manifests. During this time, the installer prunes
	// no objects, because a Manifest that is not written yet can take them over. If IsIncomplete is nil, the installer
	// assumes that all Manifests are written.
	IsIncomplete func() bool
	// Unwritten returns the bundle's Manifests that the runtime's Manifests do not match yet, for example because an
	// upgrade waits for its maintenance window. The installer does not delete an object that one of these Manifests takes
	// over. If Unwritten is nil, the installer assumes that all Manifests match the bundle.
	Unwritten func() []v1beta2.Manifest
	// Namespace is the Manifests' namespace and the default namespace for objects. Default: kyma-system.
	Namespace string
	// FieldManager is the field manager for applied objects. Default: kyma-pull. After a change, the agent does not
	// recognize the objects that it applied with the previous field manager.
	FieldManager string
	// Concurrency limits the number of concurrent reconciliations. Default: 2.
	Concurrency int
	// CheckInterval is the maximum interval between checks for a module that is not ready. Default: 15s.
	CheckInterval time.Duration
	// ReadyTimeout is the time after which a module that is not ready gets state Error. Default: 10m.
	ReadyTimeout time.Duration
	// Resync is the interval at which the installer compares all of a module's objects, even if no watch reported a
	// change. Default: 1h.
	Resync time.Duration
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, v1beta2.RuntimeNamespace)
	o.FieldManager = cmp.Or(o.FieldManager, "kyma-pull")
	o.Concurrency = cmp.Or(o.Concurrency, 2)
	o.CheckInterval = cmp.Or(o.CheckInterval, 15*time.Second)
	o.ReadyTimeout = cmp.Or(o.ReadyTimeout, 10*time.Minute)
	o.Resync = cmp.Or(o.Resync, time.Hour)
	if o.Inventories == nil {
		o.Inventories = record.NewInventories()
	}
	return o
}

// maxRetryDelay is the maximum delay before a retry after a temporary error.
const maxRetryDelay = 30 * time.Second

// Installer is the controller for Manifests. It selects the next step for a Manifest. The types in its fields run the
// steps, and each type calls only the types in its own fields.
type Installer struct {
	Options
	// cluster reads and writes Manifests without a cache. With an outdated inventory from a cache, the installer would
	// lose track of objects.
	cluster client.Client
	watches *drift.Watches
	memos   *memos

	planner  *planner
	applier  *applier
	deleter  *deleter
	observer *observer
	upgrader *upgrader
	remover  *remover
	reporter *reporter
	pacer    *pacer
}

// newInstaller connects the types that run the steps.
func newInstaller(
	options Options, accounts account.Set, cached client.Reader, watches *drift.Watches, events events.EventRecorder,
) *Installer {
	records := record.Store{Signer: options.Signer, Revisions: options.Revisions}
	cluster, now := accounts.Own().Client, time.Now
	pl := &planner{
		accounts: accounts, cached: cached, records: records, plans: planning.NewCache(),
		renderer:  rendering.Renderer{Content: options.Content, Render: options.Render, Namespace: options.Namespace},
		namespace: options.Namespace, incomplete: options.IsIncomplete, unwritten: options.Unwritten,
		claimed: newClaimsCache(),
	}
	rp := &reporter{cluster: cluster, events: events, now: now}
	l := &ledger{cluster: cluster, records: records}
	pc := &pacer{now: now, lookInterval: options.CheckInterval, readyTimeout: options.ReadyTimeout}
	ob := &observer{planner: pl, watches: watches, ledger: l}
	d := &deleter{
		planner: pl, watches: watches, inventories: options.Inventories, events: events,
		fieldManager: options.FieldManager,
	}
	ap := &applier{planner: pl, ledger: l, watches: watches, fieldManager: options.FieldManager, now: now}
	up := &upgrader{
		planner: pl, applier: ap, deleter: d, observer: ob, ledger: l, reporter: rp, pacer: pc,
		checker:   &checker{planner: pl, watches: watches, cluster: cluster, fieldManager: options.FieldManager},
		dryRunner: &dryRunner{planner: pl, applier: ap, deleter: d, ledger: l, events: events},
		now:       now, resync: options.Resync, lookInterval: options.CheckInterval,
	}
	known := newMemos()
	return &Installer{
		Options: options, cluster: cluster, watches: watches, memos: known,
		planner: pl, applier: ap, deleter: d, observer: ob, upgrader: up, reporter: rp, pacer: pc,
		remover: &remover{
			planner: pl, upgrader: up, deleter: d, pacer: pc, watches: watches, memos: known,
			now: now, lookInterval: options.CheckInterval,
		},
	}
}

// Setup adds the controller to the manager. The manager's scheme must include v1beta2, and its cache must include
// Manifests.
func Setup(mgr ctrl.Manager, options Options) (*Installer, error) {
	options = options.withDefaults()
	accounts, err := account.NewSet(mgr, options.Accounts, options.FieldManager)
	if err != nil {
		return nil, fmt.Errorf("set up the installer: %w", err)
	}
	lister, err := metadata.NewForConfigAndClient(metadata.ConfigFor(mgr.GetConfig()), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("set up the installer: %w", err)
	}
	i := newInstaller(options, accounts, mgr.GetCache(),
		drift.New(lister, mgr.GetRESTMapper(), options.FieldManager), mgr.GetEventRecorder(options.FieldManager))
	// Ignore changes to the status, which this controller writes.
	worthwhile := predicate.And(
		predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == options.Namespace }),
		predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{},
			predicate.AnnotationChangedPredicate{}))
	if options.Requeue == nil {
		options.Requeue = make(chan event.GenericEvent)
	}
	return i, ctrl.NewControllerManagedBy(mgr).
		Named("install").
		For(&v1beta2.Manifest{}, builder.WithPredicates(worthwhile)).
		Watches(&v1beta2.Manifest{}, handler.EnqueueRequestsFromMapFunc(i.planner.claimed.movesWith),
			builder.WithPredicates(worthwhile)).
		WatchesRawSource(i.watches).
		WatchesRawSource(source.Channel(options.Requeue, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: options.Concurrency,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](5*time.Millisecond,
				maxRetryDelay),
		}).
		Complete(i)
}
