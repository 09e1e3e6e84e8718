package controller

import (
	"context"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// Priorities of reconciliations, highest first: runtimes whose report a rollout awaits, changes, polls and
// notifications.
const (
	awaited = 1
	changed = 0
	routine = -1
)

const (
	// awaitedPolls is the number of reads per poll interval if a rollout awaits a runtime's report.
	awaitedPolls = 6
	// If rollouts await the reports of more than awaitedAtOnce runtimes, each is polled less often.
	awaitedAtOnce = 100
	// restingPolls multiplies the poll interval for idle runtimes, up to restingPoll.
	restingPolls = 2
	restingPoll  = time.Minute
)

func (k *Kymas) takePending(kyma types.NamespacedName) (pending bool) {
	k.fleet.Edit(kyma, func(r *fleetstate.Runtime) { pending = r.Pending.Take() })
	return pending
}

// If done is false, the Kyma's work stays pending.
func (k *Kymas) pendingAfter(kyma types.NamespacedName, done bool) {
	k.fleet.Edit(kyma, func(r *fleetstate.Runtime) {
		if done {
			r.Pending.Done(time.Now())
		} else {
			r.Pending.Add(time.Now())
		}
	})
}

// The publisher publishes no bundle for the Kyma until something changes again.
func (k *Kymas) dropPending(kyma types.NamespacedName) {
	k.fleet.Edit(kyma, func(r *fleetstate.Runtime) { r.Pending = fleetstate.Pending{} })
}

func (k *Kymas) published(kyma *v1beta2.Kyma) *publish.Record {
	return k.fleet.EditOf(kyma, func(r *fleetstate.Runtime) {
		if r.Published == nil {
			r.Published = &publish.Record{}
		}
	}).Published
}

func (k *Kymas) inOrder() handler.EventHandler {
	return handler.Funcs{
		GenericFunc: func(_ context.Context, e event.GenericEvent,
			q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}
			ordered, is := q.(priorityqueue.PriorityQueue[ctrl.Request])
			if !is {
				q.Add(request)
				return
			}
			priority := changed
			switch kyma := e.Object.(type) {
			case notified:
				priority = *k.orderOf(kyma.Kyma)
			case *v1beta2.Kyma:
				if k.Rollouts.View().Awaits(plan.RuntimeID(kyma)) {
					priority = awaited
				}
			}
			ordered.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request)
		}}
}

// orderOf returns the priority of a reconciliation after a poll or a notification.
func (k *Kymas) orderOf(kyma *v1beta2.Kyma) *int {
	if k.Rollouts.View().Awaits(plan.RuntimeID(kyma)) {
		return new(awaited)
	}
	return new(routine)
}

// pollOf returns the interval for reading a runtime's report.
func (k *Kymas) pollOf(kyma *v1beta2.Kyma) time.Duration {
	view := k.Rollouts.View()
	if !view.Awaits(plan.RuntimeID(kyma)) {
		if plan.Resting(kyma) {
			return restingPollOf(k.PollInterval)
		}
		return k.PollInterval
	}
	soon := k.PollInterval / awaitedPolls
	return min(soon*time.Duration(max(len(view.Awaited), awaitedAtOnce))/awaitedAtOnce, k.PollInterval)
}

func restingPollOf(poll time.Duration) time.Duration {
	return max(poll, min(restingPolls*poll, restingPoll))
}

// freshEnough returns the maximum age of a known report that a pass uses without reading the registry. The age is
// higher if a bundle must be published (isDue), because publishing takes precedence.
func (k *Kymas) freshEnough(kyma *v1beta2.Kyma, isDue bool) time.Duration {
	poll := k.pollOf(kyma)
	switch {
	case plan.Requested(kyma) != "":
		return 0
	case isDue:
		return 2 * max(poll, k.PollInterval)
	}
	return min(poll, k.PollInterval) / 2
}

// nextPoll requeues the Kyma for the next poll or for the time until, whichever is earlier. asked is the time of the
// last read of the report.
func (k *Kymas) nextPoll(kyma *v1beta2.Kyma, asked, until time.Time) ctrl.Result {
	wait := k.pollOf(kyma)
	if left := asked.Add(wait).Sub(k.Now()); left < wait {
		wait = max(left, min(statusSettles, wait))
	}
	wait = jitter.JitteredIntervalDuration(wait)
	if left := until.Sub(k.Now()); left > 0 && left < wait {
		wait = left
	}
	return ctrl.Result{RequeueAfter: wait, Priority: k.orderOf(kyma)}
}
