// Package watch sees objects of the runtime change that the control plane asked about. The watchers of the bundle in
// force go in; what changed comes out for the report, and the agent is woken as soon as there is something to tell.
//
// It promises bounds: one open watch per watcher, a name and a fingerprint per object, at most maxObjects of them, and
// a report of bounded size. Nothing of an object leaves the package but its name. What is there when a watch begins is
// no change; an object that gets or loses the labels is one. Kinds that are not served are looked for again.
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

// maxObjects bounds the objects of one watch: at some 600 bytes each, one watch is little and all are below 40 MiB.
const maxObjects = 2_000

// Watches are the watches of one runtime.
type Watches struct {
	metadata metadata.Interface
	objects  dynamic.Interface
	// most bounds the objects of one watch.
	most int
	// ctx ends all watches; wake tells that there is news. Start sets both.
	ctx  context.Context
	wake func(wait time.Duration)

	mu      sync.Mutex // guards what follows, and the watches in it
	running map[string]*watch
}

// watch is one watcher at work.
type watch struct {
	bundle.Watcher
	ledger
	stop context.CancelFunc
	// synced lets go of the informer when the watch gives up.
	synced cache.InformerSynced
	// objects counts what is remembered; full says that it was too much and that the watch gave up.
	objects int
	full    bool
	// absent says that the kind was not served when the watch began: what is found later is new.
	absent bool
}

// New returns Watches that watch nothing yet.
func New(metadata metadata.Interface, objects dynamic.Interface) *Watches {
	return &Watches{metadata: metadata, objects: objects, most: maxObjects, running: map[string]*watch{}}
}

// Start says how long watches may live and who wants to know when there is news: wake gets the time before which Tell
// would not tell it yet. It is called once, before Set.
func (w *Watches) Start(ctx context.Context, wake func(wait time.Duration)) {
	w.ctx, w.wake = ctx, wake
}

// Set makes these the watchers at work. Those that are at work already go on undisturbed.
func (w *Watches) Set(watchers []bundle.Watcher) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, running := range w.running {
		wanted := slices.ContainsFunc(watchers, func(other bundle.Watcher) bool { return same(other, running.Watcher) })
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

func same(a, b bundle.Watcher) bool {
	return a.Name == b.Name && a.GVR() == b.GVR() && a.Field == b.Field && maps.Equal(a.Labels, b.Labels)
}

// Tell returns what is to be reported of all watches, sorted by name; it is the same until there is news. Since is a
// sequence that no report had yet and the next report does not fall below. Wait is when to ask again for news that is
// held back, 0 when there is none.
func (w *Watches) Tell(since int64, now time.Time) (told []bundle.ReportedWatch, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.running {
		one.tell(since, now)
		told = append(told, one.told)
		if due := one.due(now); one.news() && (wait == 0 || due < wait) {
			wait = due
		}
	}
	return summary(told), wait
}

func (w *Watches) start(watcher bundle.Watcher) (*watch, error) {
	ctx, stop := context.WithCancel(w.ctx)
	one := &watch{Watcher: watcher, stop: stop}
	one.told.Watcher = watcher.Name
	informer := w.informer(one)
	one.synced = informer.HasSynced
	err := informer.SetTransform(shrink)
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) { w.failed(ctx, one, r, err) })
	}
	if err == nil {
		_, err = informer.AddEventHandler(w.handler(one))
	}
	if err != nil {
		stop()
		return nil, err
	}
	go informer.RunWithContext(ctx)
	return one, nil
}

// selection lists and watches, of metadata or of whole objects.
type selection[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
}

// informer sees only metadata where that is enough.
func (w *Watches) informer(one *watch) cache.SharedIndexInformer {
	if one.Field == bundle.FieldStatus {
		return informerOf(w, one, w.objects.Resource(one.GVR()), w.objects, &unstructured.Unstructured{})
	}
	return informerOf(w, one, w.metadata.Resource(one.GVR()), w.metadata, &metav1.PartialObjectMetadata{})
}

func informerOf[L runtime.Object](w *Watches, one *watch, resource selection[L], client any, example runtime.Object) cache.SharedIndexInformer {
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
				w.note(one, func() { one.trouble = "" })
			}
			return opened, err
		},
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lister, client), example, 0, cache.Indexers{})
}

func (w *Watches) handler(one *watch) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) { w.saw(one, obj, 1, !initial) },
		UpdateFunc: func(before, after any) {
			was, _ := before.(*seen)
			is, _ := after.(*seen)
			w.saw(one, after, 0, was != nil && is != nil && was.print != is.print)
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			w.saw(one, obj, -1, true)
		},
	}
}

func (w *Watches) saw(one *watch, obj any, more int, counts bool) {
	o, ok := obj.(*seen)
	if !ok {
		return
	}
	w.note(one, func() {
		one.objects += more
		if counts || more > 0 && one.absent {
			one.changed(object{o.Namespace, o.Name})
		}
		if one.objects > w.most && !one.full {
			one.stop()
			one.full, one.synced = true, func() bool { return true }
			one.trouble = fmt.Sprintf("more than %d objects of %s carry the labels, they are not watched: narrow labelsToWatch", w.most, one.Resource)
		}
	})
}

// failed keeps quiet about a kind that is not served: it may come, and the informer goes on asking.
func (w *Watches) failed(ctx context.Context, one *watch, r *cache.Reflector, err error) {
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
		w.note(one, func() { one.absent = one.absent || !one.synced() })
	case apierrors.IsForbidden(err):
		w.note(one, func() {
			one.trouble = fmt.Sprintf("the agent may not list and watch %s: allow it in its ClusterRole", one.GVR().GroupResource())
		})
	default:
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
}

// note writes to a watch that is still at work, and wakes the agent when that makes news.
func (w *Watches) note(one *watch, write func()) {
	w.mu.Lock()
	if w.running[one.Name] != one || one.full {
		w.mu.Unlock()
		return
	}
	before := one.news()
	write()
	news, wait := one.news() && !before, one.due(time.Now())
	w.mu.Unlock()
	if news {
		w.wake(wait)
	}
}
