package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type kind struct {
	schema.GroupVersionKind
	Namespace string
}

// arrivals records when the first and the last of several objects reached the expected state.
type arrivals struct {
	kind   kind
	watch  watch.Interface
	ended  chan struct{} // closed when all objects are in the expected state, or the watch has ended
	wanted int

	mu         sync.Mutex // guards the fields below
	there      map[string]bool
	first, all time.Time
	last       string // an object that is not in the expected state
	err        error
}

// await watches objects of a kind until the given number of objects has reached the expected state.
func await(
	ctx context.Context, config *rest.Config, of kind, wanted int, arrived func(*unstructured.Unstructured) bool,
) (*arrivals, error) {
	watching, err := client.NewWithWatch(config, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(of.GroupVersion().WithKind(of.Kind + "List"))
	w, err := watching.Watch(ctx, list, client.InNamespace(of.Namespace))
	if err != nil {
		return nil, fmt.Errorf("watch %s objects: %w", of.Kind, err)
	}
	a := &arrivals{kind: of, watch: w, ended: make(chan struct{}), wanted: wanted, there: map[string]bool{}}
	go a.follow(arrived)
	return a, nil
}

func (a *arrivals) follow(arrived func(*unstructured.Unstructured) bool) {
	defer close(a.ended)
	for event := range a.watch.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			a.fail(fmt.Errorf("watch of %s objects reported %v", a.kind.Kind, event.Object))
			return
		}
		if event.Type != watch.Added && event.Type != watch.Modified {
			continue
		}
		if a.record(object, arrived(object)) {
			return
		}
	}
	a.fail(fmt.Errorf("watch of %s objects ended", a.kind.Kind))
}

// record records the state of an object. It reports whether all objects have reached the expected state.
func (a *arrivals) record(object *unstructured.Unstructured, arrived bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !arrived {
		a.last = fmt.Sprint(object.GetName(), " ", object.Object["status"])
		return false
	}
	a.all = time.Now()
	if len(a.there) == 0 {
		a.first = a.all
	}
	a.there[object.GetName()] = true
	return len(a.there) == a.wanted
}

func (a *arrivals) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

// wait returns the times when the first and the last object reached the expected state.
func (a *arrivals) wait(ctx context.Context, limit time.Duration) (first, all time.Time, err error) {
	defer a.watch.Stop()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	late := false
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		late = true
	case <-a.ended:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if late {
		err = fmt.Errorf("timed out after %s", limit)
	}
	if err = errors.Join(err, a.err); err != nil {
		err = fmt.Errorf("%w: found %d of %d objects of kind %s; last pending object: %s", err, len(a.there), a.wanted,
			a.kind.Kind, a.last)
	}
	return a.first, a.all, err
}
