package install

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
)

// Options configure the installation of Manifests. Zero fields except Content and Render use the defaults.
type Options struct {
	// Content contains the blobs that Manifests name by digest.
	Content *contentstore.Store
	// Render makes objects of content, within bounds of time and memory.
	Render func(context.Context, render.Input) ([]*unstructured.Unstructured, error)
	// Accounts selects the account of each module. Default: the agent's own.
	Accounts guard.Accounts
	// Signer is the agent's signer, nil for none. The installer ignores a record of the version in force that it did
	// not sign.
	Signer trust.Signer
	// TryAgain are Manifests to reconcile because a missing input is available again, nil for none.
	TryAgain <-chan event.GenericEvent
	// Incomplete reports whether the agent is still writing the Manifests of a bundle; nil if it never is. Until it is
	// done, nothing is pruned: a module that is not written yet may take an object over.
	Incomplete func() bool
	// Namespace is the namespace of Manifests, and of objects that name no namespace: kyma-system.
	Namespace string
	// FieldManager is the field manager of applied objects. Default: kyma-pull. After a change, the agent does not
	// recognize its earlier objects.
	FieldManager string
	// Concurrency is the number of Manifests that are reconciled at the same time: 2.
	Concurrency int
	// LookInterval is the longest interval between two checks of a module that is not ready or not watched. Default:
	// 15s.
	LookInterval time.Duration
	// ReadyTimeout is the time after which a module that is not ready is an Error. Default: 10m. The module is still
	// checked.
	ReadyTimeout time.Duration
	// Resync is the time between two comparisons of everything, even if no watch reported a change: 1h.
	Resync time.Duration
}

func (o Options) orDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, v1beta2.RuntimeNamespace)
	o.FieldManager = cmp.Or(o.FieldManager, "kyma-pull")
	o.Concurrency = cmp.Or(o.Concurrency, 2)
	o.LookInterval = cmp.Or(o.LookInterval, 15*time.Second)
	o.ReadyTimeout = cmp.Or(o.ReadyTimeout, 10*time.Minute)
	o.Resync = cmp.Or(o.Resync, time.Hour)
	return o
}

// slowestRetry is the longest time until a retry after a temporary error.
const slowestRetry = 30 * time.Second

// Installer is the controller of Manifests. It works one Manifest at a time per name; only memos is shared between
// workers.
type Installer struct {
	Options
	// for Manifests; reads past all caches: an inventory that is not the newest forgets objects
	cluster client.Client
	cached  client.Reader     // for the other Manifests only
	actors  map[string]*actor // for all that is a module's, by user
	watches *watches
	plans   plans
	events  events.EventRecorder
	now     func() time.Time

	mu    sync.Mutex
	memos map[types.NamespacedName]*memo // a memo belongs to the worker that has its Manifest
}

// Setup adds the controller to the manager. The manager's scheme must know v1beta2; its cache needs nothing but
// Manifests. The controller makes clients and informers of its own for the rest, so that the manager may keep its cache
// as small as it likes.
func Setup(mgr ctrl.Manager, options Options) (*Installer, error) {
	options = options.orDefaults()
	actors := map[string]*actor{}
	for _, user := range options.Accounts.All() {
		a, err := newActor(mgr, user, options.FieldManager)
		if err != nil {
			return nil, fmt.Errorf("set up the installer: %w", err)
		}
		actors[user] = a
	}
	lister, err := metadata.NewForConfigAndClient(metadata.ConfigFor(mgr.GetConfig()), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("set up the installer: %w", err)
	}
	i := &Installer{
		Options: options,
		cluster: actors[""].cluster,
		cached:  mgr.GetCache(),
		actors:  actors,
		watches: newWatches(lister, mgr.GetRESTMapper(), options.FieldManager),
		events:  mgr.GetEventRecorder(options.FieldManager),
		now:     time.Now,
		memos:   map[types.NamespacedName]*memo{},
		plans:   plans{kept: map[types.NamespacedName]packedPlan{}},
	}
	// Status is left out: it is this controller that writes it.
	worthwhile := predicate.And(
		predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == options.Namespace }),
		predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{},
			predicate.AnnotationChangedPredicate{}))
	if options.TryAgain == nil {
		options.TryAgain = make(chan event.GenericEvent)
	}
	return i, ctrl.NewControllerManagedBy(mgr).
		Named("install").
		For(&v1beta2.Manifest{}, builder.WithPredicates(worthwhile)).
		WatchesRawSource(i.watches).
		WatchesRawSource(source.Channel(options.TryAgain, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: options.Concurrency,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](5*time.Millisecond,
				slowestRetry),
		}).
		Complete(i)
}

// memo is the state of a Manifest while the agent runs. Its loss costs one comparison of all objects.
type memo struct {
	uid types.UID
	// checked is the generation whose objects were all compared at checkedAt, 0 for none.
	checked   int64
	checkedAt time.Time
	// images is the annotation with the image rules of those objects.
	images string
	// values is AnnotationValues as it was applied last.
	values string
	// inherited is the annotation with lifecycle-manager's objects of the module.
	inherited string
	// pending is the generation that has not been ready since pendingSince, and the number of checks in a row that
	// found this.
	pending      int64
	pendingSince time.Time
	checks       int
	// held is the reason why an object that must be deleted still exists, in a module that is otherwise fine. It is
	// tried again after heldFor.
	held    string
	heldFor time.Duration
	// handingOver names objects that other modules take over.
	handingOver string
	// dropped are the objects of the inventory that the version no longer has. Their status does not count.
	dropped keys
	// unhooked is true if the module's webhooks were deleted first, because they blocked its removal.
	unhooked bool
	// refused is the outcome of the refused content refusedAs of a Manifest. It is tried again at retry.
	refused   *outcome
	refusedAs string
	retry     time.Time
	// immutable are the objects of that version that the API server would accept only if they did not exist.
	immutable keys
	// kept is the version in force that was compared whole at keptAt, while another one was refused.
	kept   string
	keptAt time.Time
	// begun is true if another version was begun after the one in force. unnoted is true if the API server refused the
	// record of a version.
	begun, unnoted bool
	// corrected is the time of the last correction of drift, and streak the number of corrections in a row without a
	// quiet minute.
	corrected time.Time
	streak    int
	// ready are the versions of objects in which their status was ready.
	ready map[key]string
	// objects are objects that were not ready, and the default CR, as they were seen last; at most maxLooked.
	objects map[key]*unstructured.Unstructured
	// fresh are the API server's responses in this pass: they need no other read.
	fresh map[key]*unstructured.Unstructured
	// settled are the objects that are as their content has them.
	settled map[key]settled
	// version is the Manifest's resourceVersion that this process read or wrote last.
	version string
}

// forgetReady drops the ready versions of objects that are about to be written, because a watch may show their new
// version late.
func (k *memo) forgetReady(p plan) {
	for _, o := range p.all() {
		delete(k.ready, guard.KeyOf(o))
		delete(k.objects, guard.KeyOf(o))
	}
}

func (i *Installer) remembered(m *v1beta2.Manifest) *memo {
	name := client.ObjectKeyFromObject(m)
	i.mu.Lock()
	defer i.mu.Unlock()
	if found, ok := i.memos[name]; ok && found.uid == m.UID {
		return found
	}
	i.memos[name] = &memo{uid: m.UID}
	return i.memos[name]
}

// version returns the resourceVersion of a Manifest that this process read or wrote last, empty if unknown.
func (i *Installer) version(name types.NamespacedName) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known := i.memos[name]; known != nil {
		return known.version
	}
	return ""
}

// seen records the resourceVersion of a Manifest after a pass.
func (i *Installer) seen(m *v1beta2.Manifest) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known := i.memos[client.ObjectKeyFromObject(m)]; known != nil && known.uid == m.UID {
		known.version = m.ResourceVersion
	}
}

func (i *Installer) forget(name types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.memos, name)
	i.plans.forget(name)
	i.watches.take(name)
	i.watches.takeCompleted(name)
}
