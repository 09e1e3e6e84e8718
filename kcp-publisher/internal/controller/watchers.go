package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Watchers reads the Watcher objects, provides the valid ones for the bundles, and writes the status for all of them.
type Watchers struct {
	Client    client.Client
	Namespace string

	// onChange queues every Kyma, or is nil. isReadOnly is true if another process writes the status of the Watchers.
	onChange   func(context.Context) error
	isReadOnly bool
	now        func() time.Time
	accepted   atomic.Pointer[[]bundle.Watcher]
	// reconcileMu is locked during a reconcile, so that an older list of Watchers cannot replace a newer one.
	reconcileMu sync.Mutex
}

// Snapshot returns the valid Watchers, sorted by name. known is false before the first read.
func (w *Watchers) Snapshot() (watchers []bundle.Watcher, known bool) {
	accepted := w.accepted.Load()
	if accepted == nil {
		return nil, false
	}
	return *accepted, true
}

// Reconcile reads all Watchers.
func (w *Watchers) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	w.reconcileMu.Lock()
	defer w.reconcileMu.Unlock()
	var all v1beta2.WatcherList
	if err := w.Client.List(ctx, &all, client.InNamespace(w.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list Watchers: %w", err)
	}
	next, refused := plan.CheckWatchers(all.Items)
	before := w.accepted.Swap(&next)
	if before != nil && w.onChange != nil && !equality.Semantic.DeepEqual(*before, next) {
		if err := w.onChange(ctx); err != nil {
			// Keep the previous Watchers, so that the next reconcile detects the change again and calls w.onChange.
			w.accepted.Store(before)
			return ctrl.Result{}, err
		}
		ctrl.LoggerFrom(ctx).Info("watchers changed", "watchers", len(next))
	}
	if w.isReadOnly {
		return ctrl.Result{}, nil
	}
	var problems []error
	for i := range all.Items {
		problems = append(problems, w.writeStatus(ctx, &all.Items[i], refused[all.Items[i].Name]))
	}
	return ctrl.Result{}, errors.Join(problems...)
}

func (w *Watchers) writeStatus(ctx context.Context, watcher *v1beta2.Watcher, refused error) error {
	if !watcher.DeletionTimestamp.IsZero() {
		return nil
	}
	before := watcher.DeepCopy()
	condition := metav1.Condition{
		Type: v1beta2.ConditionReady, Status: metav1.ConditionTrue, Reason: v1beta2.ReasonPublished,
		Message:            "the bundles for all runtimes contain the watcher",
		ObservedGeneration: watcher.Generation, LastTransitionTime: metav1.NewTime(w.now()),
	}
	watcher.Status.State, watcher.Status.ObservedGeneration = v1beta2.StateReady, watcher.Generation
	if refused != nil {
		watcher.Status.State = v1beta2.StateError
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, v1beta2.ReasonRefused,
			eventNote(refused.Error())
	}
	meta.SetStatusCondition(&watcher.Status.Conditions, condition)
	if equality.Semantic.DeepEqual(before.Status, watcher.Status) {
		return nil
	}
	if err := w.Client.Status().Patch(ctx, watcher, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of Watcher %s/%s: %w", watcher.Namespace, watcher.Name, err)
	}
	return nil
}
