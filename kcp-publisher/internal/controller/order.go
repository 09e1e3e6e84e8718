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

// Reconciliations are ordered: runtimes that a rollout awaits, then requests by events, then polls. Notifications count
// as polls, because constant notifications could otherwise block all polls.
const (
	awaited = 1
	changed = 0
	routine = -1
)

const (
	// awaitedPolls is the number of reads of a report that a rollout awaits, per read of another report.
	awaitedPolls = 6
	// awaitedAtOnce is the number of runtimes that can be read so often. With more, each is read less often.
	awaitedAtOnce = 100
	// restingPolls is the poll interval of an idle runtime's report, in intervals of other reports. restingPoll limits
	// that interval, unless the poll interval is longer.
	restingPolls = 2
	restingPoll  = time.Minute
)

// takePending begins a pass for a Kyma and reports whether it has something to publish.
func (k *Kymas) takePending(kyma types.NamespacedName) (pending bool) {
	k.fleet.Edit(kyma, func(r *fleetstate.Runtime) { pending = r.Pending.Take() })
	return pending
}

// pendingAfter records the end of a pass. If the work is not done, it stays pending.
func (k *Kymas) pendingAfter(kyma types.NamespacedName, done bool) {
	k.fleet.Edit(kyma, func(r *fleetstate.Runtime) {
		if done {
			r.Pending.Done(time.Now())
		} else {
			r.Pending.Add(time.Now())
		}
	})
}

// dropPending records that nothing is published for a Kyma until another change.
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

// inOrder queues the Kymas of events by priority.
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

// orderOf returns the priority of reconciliations of a Kyma that only a poll or notification requests.
func (k *Kymas) orderOf(kyma *v1beta2.Kyma) *int {
	if k.Rollouts.View().Awaits(plan.RuntimeID(kyma)) {
		return new(awaited)
	}
	return new(routine)
}

// pollOf returns the interval for reading a runtime's report: shorter while a rollout awaits it, longer while the
// runtime is idle.
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

// freshEnough returns how old the known report can be before the registry is read again. If there is something to
// publish, the report can wait until the next pass, so that the bundles of the whole fleet take precedence. A requested
// pass always reads the registry.
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

// nextPoll returns the result of a pass that only needs to read the report again: when that is due, or when the pass is
// no longer settled, whichever is first. until is zero for a pass that is not settled.
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
