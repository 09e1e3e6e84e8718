package controller

import (
	"context"
	"fmt"
	"sync"
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

// catalogSettles is how long changes are gathered: applying a folder of templates is one change of the catalog, not
// fifty.
const catalogSettles = 200 * time.Millisecond

// Catalog keeps the newest snapshot of the catalog. No Kyma is resolved by it before the rollouts have seen it.
type Catalog struct {
	Reader    client.Reader
	Namespace string
	// Restricted are modules that no Kyma sees without a kymaSelector.
	Restricted []string
	// Events receives an Event for each object that no bundle carries. Nil in shards other than the first.
	Events events.EventRecorder
	// Changed receives every Kyma that somebody asks to look at.
	Changed chan event.GenericEvent

	// moved receives an event when the catalog is another.
	moved    chan event.GenericEvent
	snapshot atomic.Pointer[catalog.Snapshot]
	// held counts the changes that are being made and are not to be seen by halves, ended those that are complete, and
	// seen those of them that the snapshot has; again asks for reading the catalog.
	held        atomic.Int32
	ended, seen atomic.Int64
	// began is when the newest of those changes began, in Unix nanoseconds; waited says that Kymas have been put off for
	// long since then.
	began  atomic.Int64
	waited atomic.Bool
	again  chan event.GenericEvent
	// fleet records the Kymas that have something to publish.
	fleet *fleetstate.Fleet
	// marked counts how often all Kymas were asked to be looked at.
	marked atomic.Int64
}

// Hold keeps the catalog, and with it every bundle, as it is until the change that is being made is complete.
func (c *Catalog) Hold() (release func()) {
	c.began.Store(time.Now().UnixNano())
	c.held.Add(1)
	return sync.OnceFunc(func() {
		c.ended.Add(1)
		c.held.Add(-1)
		select {
		case c.again <- event.GenericEvent{Object: &v1beta2.Kyma{}}:
		default: // there is a look to come
		}
	})
}

// changing reports whether bundles would be of half a change.
func (c *Catalog) changing() bool { return c.held.Load() > 0 || c.ended.Load() != c.seen.Load() }

// changingFor returns how long a change has been under way that is not complete, 0 without one.
func (c *Catalog) changingFor() time.Duration {
	if c.held.Load() == 0 {
		return 0
	}
	return time.Since(time.Unix(0, c.began.Load()))
}

// Snapshot returns the newest catalog, nil before the first was read.
func (c *Catalog) Snapshot() *catalog.Snapshot { return c.snapshot.Load() }

// Reconcile reads the whole catalog; the request's name means nothing.
func (c *Catalog) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	ended := c.ended.Load()
	if c.held.Load() > 0 {
		return ctrl.Result{RequeueAfter: catalogSettles}, nil
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
	if c.held.Load() > 0 || c.ended.Load() != ended {
		return ctrl.Result{RequeueAfter: catalogSettles}, nil // what was read may be half of a change
	}
	before := c.snapshot.Load()
	same := before != nil && before.Revision == next.Revision
	if same && c.seen.Load() == ended {
		return ctrl.Result{}, nil
	}
	// The same catalog after a change is another snapshot all the same: no Kyma is resolved by the gates from before that
	// change.
	c.snapshot.Store(next)
	c.seen.Store(ended)
	mandatoryModules.Set(float64(len(next.Mandatory())))
	if !same {
		ctrl.LoggerFrom(ctx).Info("catalog changed", "revision", next.Revision, "templates", len(templates.Items))
		c.reportWithheld(ctx, before, next)
	}
	return ctrl.Result{}, send(ctx, c.moved, &v1beta2.Kyma{})
}

// reportWithheld logs the objects that no bundle carries, and emits an Event on each, once for each cause.
func (c *Catalog) reportWithheld(ctx context.Context, before, next *catalog.Snapshot) {
	known := map[string]bool{}
	if before != nil {
		for _, w := range before.Withheld() {
			known[w.Err.Error()] = true
		}
	}
	for _, w := range next.Withheld() {
		if known[w.Err.Error()] {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("left an object out of all bundles", "kind", w.Kind, "object", w.Key.String(), "cause", w.Err.Error())
		if c.Events != nil {
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: w.Key.Namespace, Name: w.Key.Name}}
			object.SetGroupVersionKind(v1beta2.GroupVersion.WithKind(w.Kind))
			c.Events.Eventf(object, nil, corev1.EventTypeWarning, v1beta2.ReasonLeftOut, "Publish", "%s", noted(w.Err.Error()))
		}
	}
}

// markAll asks for a look at every Kyma.
func (c *Catalog) markAll(ctx context.Context) error {
	kymas, err := c.mark(ctx)
	if err != nil {
		return err
	}
	for i := range kymas {
		if err := c.publish(ctx, &kymas[i]); err != nil {
			return err
		}
	}
	return nil
}

// mark returns all Kymas, which are not to be changed, for a look at each; no look before counts for them any more.
func (c *Catalog) mark(ctx context.Context) ([]v1beta2.Kyma, error) {
	c.marked.Add(1)
	var kymas v1beta2.KymaList
	if err := c.Reader.List(ctx, &kymas, client.InNamespace(c.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Kymas: %w", err)
	}
	return kymas.Items, nil
}

// publish asks for a look at a Kyma that has something to publish.
func (c *Catalog) publish(ctx context.Context, kyma *v1beta2.Kyma) error {
	c.fleet.Edit(client.ObjectKeyFromObject(kyma), func(r *fleetstate.Runtime) { r.Pending.Add(time.Now()) })
	return send(ctx, c.Changed, kyma)
}

func send(ctx context.Context, to chan event.GenericEvent, kyma client.Object) error {
	select {
	case to <- event.GenericEvent{Object: kyma}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gathered turns every event into the one request there is, a little later.
func gathered() handler.EventHandler { return gatheredFor(catalogSettles) }

// gatheredFor turns every event into the one request there is, after as long as given.
func gatheredFor(settles time.Duration) handler.EventHandler {
	add := func(q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		q.AddAfter(ctrl.Request{NamespacedName: client.ObjectKey{Name: "all"}}, settles)
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
		GenericFunc: func(_ context.Context, _ event.GenericEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(q)
		},
	}
}
