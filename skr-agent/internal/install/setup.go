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
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/drift"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
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
	// Accounts selects the account of each module. Default: the agent's own account.
	Accounts guard.Accounts
	// Signer signs the records of Manifests with the agent's key. Without a Signer, the installer removes no modules,
	// because no record of a removal has a valid signature.
	Signer trust.Signer
	// TryAgain receives the Manifests whose missing content is now available. The installer reconciles them. It can be
	// nil.
	TryAgain <-chan event.GenericEvent
	// Incomplete reports whether the agent is still writing the Manifests of a bundle. During this time, the installer
	// prunes no objects, because one of the missing Manifests can take them over. If Incomplete is nil, the installer
	// assumes that all Manifests are written.
	Incomplete func() bool
	// Namespace is the namespace of Manifests and the default namespace of objects. Default: kyma-system.
	Namespace string
	// FieldManager is the field manager of applied objects. Default: kyma-pull. If it changes, the agent does not
	// recognize the objects that it applied before.
	FieldManager string
	// Concurrency limits the number of concurrent reconciliations. Default: 2.
	Concurrency int
	// LookInterval is the maximum interval between two checks of a module that is not ready. Default: 15s.
	LookInterval time.Duration
	// ReadyTimeout is the time after which a module that is not ready gets state Error. Default: 10m.
	ReadyTimeout time.Duration
	// Resync is the interval at which the installer compares all objects of a module, even if no watch reported a
	// change. Default: 1h.
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

// slowestRetry is the maximum delay of a retry after a temporary error.
const slowestRetry = 30 * time.Second

// Installer is the controller of Manifests. The workers share memos, plans and watches.
type Installer struct {
	Options
	// cluster reads and writes Manifests without a cache. With an outdated inventory from a cache, the installer would
	// lose track of objects.
	cluster  client.Client
	cached   client.Reader               // lists Manifests from the manager's cache
	actors   map[string]*account.Account // clients for the objects of modules, by user name
	watches  *drift.Watches
	plans    *planning.Cache
	renderer rendering.Renderer
	records  record.Book
	events   events.EventRecorder
	now      func() time.Time

	mu    sync.Mutex
	memos map[types.NamespacedName]*memo // only the worker that reconciles a Manifest uses its memo
}

// Setup adds the controller to the manager. The manager's scheme must include v1beta2, and its cache must include
// Manifests.
func Setup(mgr ctrl.Manager, options Options) (*Installer, error) {
	options = options.orDefaults()
	actors := map[string]*account.Account{}
	for _, user := range options.Accounts.All() {
		a, err := account.New(mgr, user, options.FieldManager)
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
		Options:  options,
		cluster:  actors[""].Client,
		cached:   mgr.GetCache(),
		actors:   actors,
		records:  record.Book{Signer: options.Signer},
		watches:  drift.New(lister, mgr.GetRESTMapper(), options.FieldManager),
		events:   mgr.GetEventRecorder(options.FieldManager),
		now:      time.Now,
		renderer: rendering.Renderer{Content: options.Content, Render: options.Render, Namespace: options.Namespace},
		memos:    map[types.NamespacedName]*memo{},
		plans:    planning.NewCache(),
	}
	// Ignore changes of the status, which this controller writes.
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

// memo is the in-memory state of a Manifest. It is empty after a restart.
type memo struct {
	uid types.UID
	// checked is the Manifest's generation at the last comparison of all objects, and checkedAt is the time of this
	// comparison. checked is 0 before the first comparison.
	checked   int64
	checkedAt time.Time
	// images is the value of AnnotationImages at the last comparison.
	images string
	// values is the value of AnnotationValues at the last comparison.
	values string
	// inherited is the digest of inherited objects in the Manifest's record at the last comparison.
	inherited string
	// pending is the generation that is not ready yet. pendingSince is the time of its first check, and checks is the
	// number of its checks.
	pending      int64
	pendingSince time.Time
	checks       int
	// held is the reason why an object that was pruned still exists. heldFor is the delay until the next attempt to
	// delete the object.
	held    string
	heldFor time.Duration
	// handingOver is the status message about objects that other modules must take over before this module can drop
	// them.
	handingOver string
	// dropped contains the objects in the inventory that are not in the current version.
	dropped object.Keys
	// webhooksDeleted is true if the module's webhooks were deleted because they blocked its removal.
	webhooksDeleted bool
	// refused is the outcome of the last refused content. refusedAs identifies the content. retry is the time of the
	// next attempt.
	refused   *outcome.Outcome
	refusedAs string
	retry     time.Time
	// immutable contains the objects of the refused content that differ from the live objects in immutable fields.
	immutable object.Keys
	// kept identifies the last applied version in the Manifest's record. keptAt is the time when the agent last
	// compared all objects of this version.
	kept   string
	keptAt time.Time
	// begun is true if the apply of a new version has started. recordFailed is true if the API server refused the
	// record of the applied version.
	begun, recordFailed bool
	// corrected is the time of the last drift correction. streak is the number of corrections in quick succession.
	corrected time.Time
	streak    int
	// ready contains the resource version at which each object was last found ready.
	ready map[guard.Key]string
	// objects caches the default CR and objects that were not ready.
	objects map[guard.Key]*unstructured.Unstructured
	// fresh contains objects from responses of the API server in the current reconciliation.
	fresh map[guard.Key]*unstructured.Unstructured
	// settled contains the objects that matched the module's content when the agent last applied them.
	settled map[guard.Key]settled
	// version is the last resourceVersion of the Manifest that this process read or wrote.
	version string
}

// forgetReady drops the recorded readiness of objects that the agent writes next. Until the watches show the new
// objects, the old readiness would seem current.
func (k *memo) forgetReady(p planning.Plan) {
	for _, o := range p.All() {
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

// version returns the last resourceVersion of a Manifest that this process read or wrote, or "" if it is unknown.
func (i *Installer) version(name types.NamespacedName) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known := i.memos[name]; known != nil {
		return known.version
	}
	return ""
}

// seen records the resourceVersion of a Manifest at the end of its reconciliation.
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
	i.plans.Forget(name)
	i.watches.TakeChanged(name)
	i.watches.TakeCompleted(name)
}

func (i *Installer) actor(m *v1beta2.Manifest) *account.Account {
	return i.actors[i.Accounts.Of(m.Module(), m.ModuleLabel())]
}
