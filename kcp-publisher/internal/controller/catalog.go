package controller

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

// catalogDelay is the delay between a change to a catalog object and the next read of the catalog, so that the
// publisher reads the catalog only once after many changes.
const catalogDelay = 200 * time.Millisecond

// Catalog reads the catalog from the API server and stores the latest snapshot. The publisher uses a snapshot for
// bundles only after type Rollouts has evaluated all rollouts with it.
type Catalog struct {
	*Changes
	Reader    client.Reader
	Namespace string
	// Restricted lists the modules that require a kymaSelector to be visible.
	Restricted []string
	// Events receives Events about catalog objects that are excluded from all bundles. With shards, it is nil in all
	// shards except the first, so that each Event is emitted once.
	Events events.EventRecorder
	// Reconciles receives Kymas to reconcile. The catalog sends every Kyma to it after a change that affects all Kymas.
	Reconciles chan event.GenericEvent

	// changed receives an event after the catalog has changed.
	changed  chan event.GenericEvent
	snapshot atomic.Pointer[catalog.Snapshot]
	// readChanges is the value of endedChanges at the time when the current snapshot was read.
	readChanges atomic.Int64
	// If a change takes longer than reconcile.HoldTimeout, some Kymas are requeued only for their next poll.
	// isSlowChange is true after such a change until all Kymas are queued.
	isSlowChange atomic.Bool
	fleet        *fleetstate.Fleet
	// markedCount counts the calls to markKymas.
	markedCount atomic.Int64
}

// isChanging reports whether a change to several catalog objects is in progress, or has ended after the current
// snapshot was read.
func (c *Catalog) isChanging() bool {
	return c.inProgress.Load() > 0 || c.endedChanges.Load() != c.readChanges.Load()
}

// Snapshot returns the latest catalog snapshot, or nil before the first read.
func (c *Catalog) Snapshot() *catalog.Snapshot { return c.snapshot.Load() }

// Reconcile reads all catalog objects and stores a new snapshot.
func (c *Catalog) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	ended := c.endedChanges.Load()
	if c.inProgress.Load() > 0 {
		return ctrl.Result{RequeueAfter: catalogDelay}, nil
	}
	var templates v1beta2.ModuleTemplateList
	if err := c.Reader.List(ctx, &templates, client.InNamespace(c.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list ModuleTemplates: %w", err)
	}
	var metas v1beta2.ModuleReleaseMetaList
	if err := c.Reader.List(ctx, &metas, client.InNamespace(c.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list ModuleReleaseMetas: %w", err)
	}
	next, err := catalog.New(templates.Items, metas.Items, c.Restricted...)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("index the catalog: %w", err)
	}
	if c.inProgress.Load() > 0 || c.endedChanges.Load() != ended {
		return ctrl.Result{RequeueAfter: catalogDelay}, nil // the snapshot may contain only some of the changes
	}
	before := c.snapshot.Load()
	same := before != nil && before.Revision == next.Revision
	if same && c.readChanges.Load() == ended {
		return ctrl.Result{}, nil
	}
	// Store the new snapshot even if its content is the same. The rollouts are then evaluated again, so that Kymas are
	// never resolved with outdated rollout decisions.
	c.snapshot.Store(next)
	c.readChanges.Store(ended)
	mandatoryModules.Set(float64(len(next.MandatoryModules())))
	if !same {
		ctrl.LoggerFrom(ctx).Info("catalog changed", "revision", next.Revision, "templates", len(templates.Items))
		c.reportWithheld(ctx, before, next)
	}
	return ctrl.Result{}, sendEvent(ctx, c.changed, &v1beta2.Kyma{})
}

// reportWithheld logs the catalog objects that are excluded from all bundles. It emits one Event per object and
// reason.
func (c *Catalog) reportWithheld(ctx context.Context, before, next *catalog.Snapshot) {
	known := map[string]bool{}
	if before != nil {
		for _, w := range before.WithheldObjects() {
			known[w.Err.Error()] = true
		}
	}
	for _, w := range next.WithheldObjects() {
		if known[w.Err.Error()] {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("excluded an object from all bundles", "kind", w.Kind, "object", w.Key.String(),
			"cause", w.Err.Error())
		if c.Events != nil {
			object := &metav1.PartialObjectMetadata{
				// kubectl describe finds an object's Events by its UID.
				ObjectMeta: metav1.ObjectMeta{Namespace: w.Key.Namespace, Name: w.Key.Name, UID: w.UID},
			}
			object.SetGroupVersionKind(v1beta2.GroupVersion.WithKind(w.Kind))
			c.Events.Eventf(object, nil, corev1.EventTypeWarning, v1beta2.ReasonLeftOut, "Publish", "%s",
				eventNote(w.Err.Error()))
		}
	}
}

func (c *Catalog) reconcileAll(ctx context.Context) error {
	kymas, err := c.markKymas(ctx)
	if err != nil {
		return err
	}
	for i := range kymas {
		if err := c.queueKyma(ctx, &kymas[i]); err != nil {
			return err
		}
	}
	return nil
}

// markKymas must be called after a change that affects all Kymas. It ensures that the next reconcile of each Kyma is
// not skipped. It returns the cached Kymas, which the caller must queue but not modify.
func (c *Catalog) markKymas(ctx context.Context) ([]v1beta2.Kyma, error) {
	c.markedCount.Add(1)
	var kymas v1beta2.KymaList
	if err := c.Reader.List(ctx, &kymas, client.InNamespace(c.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Kymas: %w", err)
	}
	return kymas.Items, nil
}

func (c *Catalog) queueKyma(ctx context.Context, kyma *v1beta2.Kyma) error {
	c.fleet.Edit(client.ObjectKeyFromObject(kyma), func(r *fleetstate.Runtime) { r.Pending.Add(time.Now()) })
	return sendEvent(ctx, c.Reconciles, kyma)
}

func sendEvent(ctx context.Context, events chan event.GenericEvent, kyma client.Object) error {
	select {
	case events <- event.GenericEvent{Object: kyma}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func batchEvents() handler.EventHandler { return batchEventsFor(catalogDelay) }

// batchEventsFor returns a handler that waits for delay after an event and then queues a single request for all events.
func batchEventsFor(delay time.Duration) handler.EventHandler {
	add := func(q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		q.AddAfter(ctrl.Request{NamespacedName: client.ObjectKey{Name: "all"}}, delay)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(q)
		},
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(q)
		},
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(q)
		},
		GenericFunc: func(_ context.Context, _ event.GenericEvent,
			q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(q)
		},
	}
}
