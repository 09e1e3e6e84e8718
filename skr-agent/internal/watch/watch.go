// Package watch detects changes to objects in the runtime. The agent reports these changes to the control plane. Its
// input is the last accepted bundle's watchers. Its output is the changed objects for the report.
//
// Each watcher has one watch with at most maxObjects objects. A watch stores a name and a fingerprint for each object.
// It does not report the objects that exist at its start. If an object gains or loses the watched labels, the watch
// reports the object as changed. If the API server does not serve a kind, the watch retries.
package watch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// maxObjects limits the objects in one watch. All watches together need less than 40 MiB.
const maxObjects = 2_000

// Watches runs one runtime's watches.
type Watches struct {
	metadata metadata.Interface
	objects  dynamic.Interface
	// limit is the maximum number of objects in one watch.
	limit int
	// All watches stop when ctx ends. The watches call wake after changes. Start sets both fields.
	ctx  context.Context
	wake func(wait time.Duration)

	mu      sync.Mutex // guards all fields below, and the watches in the map
	running map[string]*watch
}

// watch is a running watcher with the changes that it observed.
type watch struct {
	bundle.Watcher
	changeLog
	stop context.CancelFunc
	// synced reports whether the informer has received its first list. After the watch exceeded its limit, synced does
	// not refer to the informer anymore, so that its memory can be freed.
	synced cache.InformerSynced
	// objectCount is the number of stored objects. isOverLimit is true if the watch was stopped because it exceeded the
	// limit.
	objectCount int
	isOverLimit bool
	// isUnserved is true if the API server did not serve the kind when the watch started. The watch then reports all of
	// the kind's objects as changes.
	isUnserved bool
}

// New returns Watches without watchers.
func New(metadata metadata.Interface, objects dynamic.Interface) *Watches {
	return &Watches{metadata: metadata, objects: objects, limit: maxObjects, running: map[string]*watch{}}
}

// Start sets the context for all watches and the function wake. The watches call wake after a change, with the time
// until Report includes the change. Callers must call Start once, before Set.
func (w *Watches) Start(ctx context.Context, wake func(wait time.Duration)) {
	w.ctx, w.wake = ctx, wake
}

// Set replaces the watchers. Watchers that did not change keep running.
func (w *Watches) Set(watchers []bundle.Watcher) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, running := range w.running {
		wanted := slices.ContainsFunc(watchers,
			func(other bundle.Watcher) bool { return isSameWatcher(other, running.Watcher) })
		if !wanted {
			running.stop()
			delete(w.running, name)
		}
	}
	for _, watcher := range watchers {
		if w.running[watcher.Name] != nil {
			continue
		}
		started, err := w.start(watcher)
		if err != nil {
			return fmt.Errorf("watcher %s: %w", watcher.Name, err)
		}
		w.running[watcher.Name] = started
	}
	return nil
}

func isSameWatcher(a, b bundle.Watcher) bool {
	return a.Name == b.Name && a.GVR() == b.GVR() && a.Field == b.Field && maps.Equal(a.Labels, b.Labels)
}

// Report returns all watches' changes for the runtime's report, sorted by watcher. sequence must be higher than all
// previous reports' sequences, and not higher than the next report's sequence. wait is the time until Report can
// include the pending changes, or 0 if no changes are pending.
func (w *Watches) Report(sequence int64, now time.Time) (reported []bundle.ReportedWatch, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.running {
		one.reportPending(sequence, now)
		reported = append(reported, one.reported)
		if hold := one.reportDelay(now); one.hasPending() && (wait == 0 || hold < wait) {
			wait = hold
		}
	}
	return summary(reported), wait
}

func (w *Watches) start(watcher bundle.Watcher) (*watch, error) {
	ctx, stop := context.WithCancel(w.ctx)
	one := &watch{Watcher: watcher, stop: stop}
	one.reported.Watcher = watcher.Name
	informer := w.informerFor(one)
	one.synced = informer.HasSynced
	err := informer.SetTransform(reduceObject)
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector,
			err error) {
			w.onWatchError(ctx, one, r, err)
		})
	}
	if err == nil {
		_, err = informer.AddEventHandler(w.eventHandler(one))
	}
	if err != nil {
		stop()
		return nil, err
	}
	go informer.RunWithContext(ctx)
	return one, nil
}

// resourceClient is a client that lists and watches objects of one resource, either their metadata or whole objects.
type resourceClient[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
}

// informerFor returns a watch's informer. The informer receives whole objects if the watcher reports changes to the
// status, and only metadata otherwise.
func (w *Watches) informerFor(one *watch) cache.SharedIndexInformer {
	if one.Field == bundle.FieldStatus {
		return newInformer(w, one, w.objects.Resource(one.GVR()), w.objects, &unstructured.Unstructured{})
	}
	return newInformer(w, one, w.metadata.Resource(one.GVR()), w.metadata, &metav1.PartialObjectMetadata{})
}

func newInformer[L runtime.Object](
	w *Watches, one *watch, resource resourceClient[L], client any, example runtime.Object,
) cache.SharedIndexInformer {
	selector := one.Selector()
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector = selector
			opened, err := resource.Watch(ctx, o)
			if err == nil {
				w.recordChange(one, func() { one.trouble = "" })
			}
			return opened, err
		},
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lister, client), example, 0,
		cache.Indexers{})
}

func (w *Watches) eventHandler(one *watch) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) { w.observe(one, obj, 1, !initial) },
		UpdateFunc: func(before, after any) {
			was, _ := before.(*cachedObject)
			is, _ := after.(*cachedObject)
			w.observe(one, after, 0, was != nil && is != nil && was.fingerprint != is.fingerprint)
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			w.observe(one, obj, -1, true)
		},
	}
}

func (w *Watches) observe(one *watch, obj any, delta int, counts bool) {
	o, ok := obj.(*cachedObject)
	if !ok {
		return
	}
	w.recordChange(one, func() {
		one.objectCount += delta
		if counts || delta > 0 && one.isUnserved {
			one.addObject(object{o.Namespace, o.Name})
		}
		if one.objectCount > w.limit && !one.isOverLimit {
			one.stop()
			one.isOverLimit, one.synced = true, func() bool { return true }
			one.trouble = fmt.Sprintf(
				"more than %d %s have the labels, so the watch was stopped: narrow labelsToWatch", w.limit,
				one.Resource)
		}
	})
}

// onWatchError handles an informer's errors. It ignores the error for a kind that the API server does not serve,
// because the informer retries.
func (w *Watches) onWatchError(ctx context.Context, one *watch, r *cache.Reflector, err error) {
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
		w.recordChange(one, func() { one.isUnserved = one.isUnserved || !one.synced() })
	case apierrors.IsForbidden(err):
		w.recordChange(one, func() {
			one.trouble = fmt.Sprintf(
				"the agent is not allowed to list and watch %s: add this permission to its ClusterRole",
				one.GVR().GroupResource())
		})
	default:
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
}

// recordChange calls the function record to record a change that a watch observed. It does nothing if the watch has
// stopped. The first pending change starts a reconciliation.
func (w *Watches) recordChange(one *watch, record func()) {
	w.mu.Lock()
	if w.running[one.Name] != one || one.isOverLimit {
		w.mu.Unlock()
		return
	}
	before := one.hasPending()
	record()
	pending, wait := one.hasPending() && !before, one.reportDelay(time.Now())
	w.mu.Unlock()
	if pending {
		w.wake(wait)
	}
}
