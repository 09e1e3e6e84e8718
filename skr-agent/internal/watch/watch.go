// Package watch sees objects of the runtime change that the control plane asked about. The watchers of the bundle in force go in;
// what changed comes out for the report, and the agent is woken as soon as there is something to tell.
//
// It promises bounds: one open watch per watcher, a name and a fingerprint per object, at most maxObjects of them, and a report of
// bounded size. Nothing of an object leaves the package but its name. What is there when a watch begins is no change; an object that
// gets or loses the labels is one. Kinds that are not served are looked for again.
package watch

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
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

// maxObjects bounds the objects of one watch: at some 500 bytes each, all watches together stay below 100 MiB at the very worst.
const maxObjects = 5_000

// Watches are the watches of one runtime.
type Watches struct {
	metadata metadata.Interface
	objects  dynamic.Interface
	// wake tells that there is news, wait that nobody needs to look before.
	wake func(wait time.Duration)

	mu      sync.Mutex // guards what follows, and the watches' ledgers
	running map[string]*watch
}

// watch is one watcher at work.
type watch struct {
	bundle.Watcher
	ledger
	stop   context.CancelFunc
	synced cache.InformerSynced
	// objects counts what is remembered.
	objects int
	// absent says that the kind was not served when the watch began: what is found later is new.
	absent atomic.Bool
}

// New gives Watches that watch nothing yet. It calls wake when there is news, never while it is being called itself.
func New(metadata metadata.Interface, objects dynamic.Interface, wake func(wait time.Duration)) *Watches {
	return &Watches{metadata: metadata, objects: objects, wake: wake, running: map[string]*watch{}}
}

// Set makes these the watchers at work, until the context ends. Those that are at work already go on undisturbed.
func (w *Watches) Set(ctx context.Context, watchers []bundle.Watcher) error {
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
		started, err := w.start(ctx, watcher)
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

// Tell gives what is to be reported of all watches, sorted by name; it is the same until there is news. Since is a sequence that no
// report had yet and the next report does not fall below.
func (w *Watches) Tell(since int64, now time.Time) []bundle.ReportedWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := make([]bundle.ReportedWatch, 0, len(w.running))
	for _, one := range w.running {
		one.tell(since, now)
		told = append(told, one.told)
	}
	return summary(told)
}

func (w *Watches) start(ctx context.Context, watcher bundle.Watcher) (*watch, error) {
	ctx, stop := context.WithCancel(ctx)
	one := &watch{Watcher: watcher, stop: stop}
	one.told.Watcher = watcher.Name
	informer := w.informer(watcher)
	one.synced = informer.HasSynced
	err := informer.SetTransform(shrink)
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { w.failed(one, err) })
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

// informer sees only metadata where that is enough.
func (w *Watches) informer(watcher bundle.Watcher) cache.SharedIndexInformer {
	selected := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector = watcher.Selector()
		return o
	}
	var lister *cache.ListWatch
	var client any
	var example runtime.Object
	if watcher.Field == bundle.FieldStatus {
		resource := w.objects.Resource(watcher.GVR())
		client, example = w.objects, &unstructured.Unstructured{}
		lister = &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return resource.List(ctx, selected(o))
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
				return resource.Watch(ctx, selected(o))
			},
		}
	} else {
		resource := w.metadata.Resource(watcher.GVR())
		client, example = w.metadata, &metav1.PartialObjectMetadata{}
		lister = &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return resource.List(ctx, selected(o))
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
				return resource.Watch(ctx, selected(o))
			},
		}
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lister, client), example, 0, cache.Indexers{})
}

func (w *Watches) handler(one *watch) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) { w.saw(one, obj, 1, !initial || one.absent.Load()) },
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
		if counts {
			one.changed(object{o.Namespace, o.Name})
		}
		if one.objects > maxObjects && more > 0 {
			one.stop()
			one.trouble = fmt.Sprintf("more than %d objects of %s carry the labels, nothing is watched: narrow labelsToWatch", maxObjects, one.Resource)
		}
	})
}

// failed keeps quiet about a kind that is not served: it may come, and the informer goes on asking.
func (w *Watches) failed(one *watch, err error) {
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
		if !one.synced() {
			one.absent.Store(true)
		}
	case apierrors.IsForbidden(err):
		w.note(one, func() {
			one.trouble = fmt.Sprintf("the agent may not list and watch %s: allow it in its ClusterRole", one.GVR().GroupResource())
		})
	}
}

// note writes to the ledger of a watch that is still at work, and wakes the agent when that is news.
func (w *Watches) note(one *watch, write func()) {
	w.mu.Lock()
	news := false
	if w.running[one.Name] == one || w.running[one.Name] == nil {
		before := one.news()
		write()
		news = one.news() && !before
	}
	wait := one.due(time.Now())
	w.mu.Unlock()
	if news {
		w.wake(wait)
	}
}

var _ = reflect.DeepEqual
