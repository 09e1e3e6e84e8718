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

// Priorities of reconciliations, highest first: runtimes whose report a rollout awaits, then changes, then polls.
// Notifications have the priority of polls, because constant notifications could otherwise block all polls.
const (
	awaited = 1
	changed = 0
	routine = -1
)

const (
	// awaitedPolls is the number of reads per poll interval for the report of a runtime that a rollout awaits.
	awaitedPolls = 6
	// awaitedAtOnce is the number of runtimes that can be polled at the rate of awaitedPolls. If rollouts await more
	// runtimes, each is polled less often.
	awaitedAtOnce = 100
	// restingPolls multiplies the poll interval for idle runtimes. The result is at most restingPoll, or the poll
	// interval if that is longer.
	restingPolls = 2
	restingPoll  = time.Minute
)

// takePending takes the pending work of a Kyma at the start of a pass, and reports whether there was any.
func (k *Kymas) takePending(kyma types.NamespacedName) (pending bool) {
	k.fleet.Edit(kyma, func(r *fleetstate.Runtime) { pending = r.Pending.Take() })
	return pending
}

// pendingAfter records at the end of a pass whether the Kyma's pending work is done. Otherwise the work stays pending.
func (k *Kymas) pendingAfter(kyma types.NamespacedName, done bool) {
	k.fleet.Edit(kyma, func(r *fleetstate.Runtime) {
		if done {
			r.Pending.Done(time.Now())
		} else {
			r.Pending.Add(time.Now())
		}
	})
}

// dropPending discards the pending work of a Kyma. The publisher then publishes no bundle for the Kyma until something
// changes again.
func (k *Kymas) dropPending(kyma types.NamespacedName) {
	k.fleet.Edit(kyma, func(r *fleetstate.Runtime) { r.Pending = fleetstate.Pending{} })
}

// published returns the publisher's record of a Kyma's runtime.
func (k *Kymas) published(kyma *v1beta2.Kyma) *publish.Record {
	return k.fleet.EditOf(kyma, func(r *fleetstate.Runtime) {
		if r.Published == nil {
			r.Published = &publish.Record{}
		}
	}).Published
}

// inOrder returns a handler that queues the Kyma of each event with its priority.
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

// orderOf returns the priority of a Kyma's reconciliation if a poll or a notification triggers it.
func (k *Kymas) orderOf(kyma *v1beta2.Kyma) *int {
	if k.Rollouts.View().Awaits(plan.RuntimeID(kyma)) {
		return new(awaited)
	}
	return new(routine)
}

// pollOf returns the interval for reading a runtime's report. It is shorter while a rollout awaits the runtime, and
// longer while the runtime is idle.
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

// restingPollOf returns the interval between reads of the report of an idle runtime. poll is the interval for other
// runtimes.
func restingPollOf(poll time.Duration) time.Duration {
	return max(poll, min(restingPolls*poll, restingPoll))
}

// freshEnough returns the maximum age of a known report that a pass uses without a request to the registry. If isDue is
// true, a bundle must be published. The maximum age is then higher, because publishing to the whole fleet takes
// precedence over reading reports. A pass that an operator requested always reads the registry.
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

// nextPoll returns the result of a pass if the only remaining work is the next read of the report. It requeues the Kyma
// for the next poll or for the time in until, whichever is earlier. asked is the time of the last read of the report.
// until is the time up to which the next passes can be skipped, or zero.
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
