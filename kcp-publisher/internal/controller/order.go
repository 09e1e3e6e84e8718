package controller

import (
	"context"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Priorities of reconciles, highest first. priorityAwaited is for runtimes whose reports a rollout is waiting for,
// priorityChanged is for changes, and priorityRoutine is for polls and notifications.
const (
	priorityAwaited = 1
	priorityChanged = 0
	priorityRoutine = -1
)

func (k *Kymas) priorityHandler() handler.EventHandler {
	return handler.Funcs{
		GenericFunc: func(_ context.Context, e event.GenericEvent,
			q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}
			ordered, is := q.(priorityqueue.PriorityQueue[ctrl.Request])
			if !is {
				q.Add(request)
				return
			}
			priority := priorityChanged
			switch kyma := e.Object.(type) {
			case notifiedRuntime:
				priority = *k.priorityOf(kyma.Kyma)
			case *v1beta2.Kyma:
				if k.Rollouts.View().IsAwaited(plan.RuntimeID(kyma)) {
					priority = priorityAwaited
				}
			}
			ordered.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request)
		}}
}

// priorityOf returns the priority for the next reconcile after a poll or a notification.
func (k *Kymas) priorityOf(kyma *v1beta2.Kyma) *int {
	if k.Rollouts.View().IsAwaited(plan.RuntimeID(kyma)) {
		return new(priorityAwaited)
	}
	return new(priorityRoutine)
}

// nextPoll returns a Result that requeues the Kyma at its next poll or at the time in until, whichever is earlier.
// asked is the time at which the runtime's report was last read.
func (k *Kymas) nextPoll(kyma *v1beta2.Kyma, asked, until time.Time) ctrl.Result {
	wait := k.pollInterval(kyma)
	if left := asked.Add(wait).Sub(k.Now()); left < wait {
		wait = max(left, min(statusDelay, wait))
	}
	wait = jitter.JitteredIntervalDuration(wait)
	if left := until.Sub(k.Now()); left > 0 && left < wait {
		wait = left
	}
	return ctrl.Result{RequeueAfter: wait, Priority: k.priorityOf(kyma)}
}
