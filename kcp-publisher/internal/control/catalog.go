package control

import (
	"context"
	"fmt"
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

// Catalog keeps the newest snapshot of the catalog. No Kyma is resolved by it before the rollouts have seen it.
type Catalog struct {
	Reader    client.Reader
	Namespace string
	// Changed receives every Kyma that somebody asks to look at.
	Changed chan event.GenericEvent

	// moved receives an event when the catalog is another.
	moved    chan event.GenericEvent
	snapshot atomic.Pointer[catalog.Snapshot]
}

// Snapshot gives the newest catalog, nil before the first was read.
func (c *Catalog) Snapshot() *catalog.Snapshot { return c.snapshot.Load() }

// Reconcile reads the whole catalog; the request's name means nothing.
func (c *Catalog) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
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
	ctrl.LoggerFrom(ctx).Info("the catalog changed", "revision", next.Revision, "templates", len(templates.Items))
	return ctrl.Result{}, send(ctx, c.moved, &v1beta2.Kyma{})
}

// markAll asks for a look at every Kyma.
func (c *Catalog) markAll(ctx context.Context) error {
	var kymas v1beta2.KymaList
	if err := c.Reader.List(ctx, &kymas, client.InNamespace(c.Namespace)); err != nil {
		return fmt.Errorf("list Kymas: %w", err)
	}
	for i := range kymas.Items {
		if err := send(ctx, c.Changed, &kymas.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func send(ctx context.Context, to chan event.GenericEvent, kyma *v1beta2.Kyma) error {
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
