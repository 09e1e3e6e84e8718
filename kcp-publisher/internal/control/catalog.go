package control

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/catalog"
)

// catalogSettles is how long changes are gathered: applying a folder of templates is one change of the catalog, not fifty.
const catalogSettles = 200 * time.Millisecond

// Catalog keeps the newest snapshot of the catalog and marks all Kymas for a look when it changed.
type Catalog struct {
	Reader    client.Reader
	Namespace string
	// Changed receives every Kyma when the catalog is another.
	Changed chan event.GenericEvent

	snapshot atomic.Pointer[catalog.Snapshot]
	// held counts the changes that are being made and are not to be seen by halves; behind says that one of them was made since the
	// catalog was read, and again asks for reading it.
	held   atomic.Int32
	behind atomic.Bool
	again  chan event.GenericEvent
}

// Hold keeps the catalog, and with it every bundle, as it is until the change that is being made is complete.
func (c *Catalog) Hold() (release func()) {
	c.held.Add(1)
	return sync.OnceFunc(func() {
		c.behind.Store(true)
		c.held.Add(-1)
		select {
		case c.again <- event.GenericEvent{Object: &v1beta2.Kyma{}}:
		default: // there is a look to come
		}
	})
}

// changing tells whether bundles would be of half a change.
func (c *Catalog) changing() bool { return c.held.Load() > 0 || c.behind.Load() }

// Snapshot gives the newest catalog, nil before the first was read.
func (c *Catalog) Snapshot() *catalog.Snapshot { return c.snapshot.Load() }

// Reconcile reads the whole catalog; the request's name means nothing.
func (c *Catalog) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	if c.held.Load() > 0 {
		return ctrl.Result{RequeueAfter: catalogSettles}, nil
	}
	c.behind.Store(false)
	var templates v1beta2.ModuleTemplateList
	if err := c.Reader.List(ctx, &templates, client.InNamespace(c.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list ModuleTemplates: %w", err)
	}
	var metas v1beta2.ModuleReleaseMetaList
	if err := c.Reader.List(ctx, &metas, client.InNamespace(c.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list ModuleReleaseMetas: %w", err)
	}
	next, err := catalog.New(templates.Items, metas.Items)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("index the catalog: %w", err)
	}
	before := c.snapshot.Swap(next)
	if before != nil && before.Revision == next.Revision {
		return ctrl.Result{}, nil
	}
	kymas, err := c.markAll(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	ctrl.LoggerFrom(ctx).Info("the catalog changed", "revision", next.Revision, "templates", len(templates.Items), "kymas", kymas)
	return ctrl.Result{}, nil
}

// markAll asks for a look at every Kyma, and tells how many there are.
func (c *Catalog) markAll(ctx context.Context) (int, error) {
	var kymas v1beta2.KymaList
	if err := c.Reader.List(ctx, &kymas, client.InNamespace(c.Namespace)); err != nil {
		return 0, fmt.Errorf("list Kymas: %w", err)
	}
	for i := range kymas.Items {
		select {
		case c.Changed <- event.GenericEvent{Object: &kymas.Items[i]}:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return len(kymas.Items), nil
}

// gathered turns every event into the one request there is, a little later.
func gathered() handler.EventHandler {
	add := func(q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		q.AddAfter(ctrl.Request{NamespacedName: client.ObjectKey{Name: "catalog"}}, catalogSettles)
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
