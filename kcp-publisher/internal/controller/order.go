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

// These are the priorities of reconciles, highest first. awaited is for runtimes whose report a rollout is waiting for,
// changed is for changes, and routine is for polls and notifications.
const (
	awaited = 1
	changed = 0
	routine = -1
)

const (
	// If a rollout is waiting for a runtime's report, the report is read awaitedPolls times per poll interval.
	awaitedPolls = 6
	// If rollouts are waiting for the reports of more than awaitedAtOnce runtimes, each report is read less often.
	awaitedAtOnce = 100
	// The poll interval of an idle runtime is multiplied by restingPolls, but it is increased at most to restingPoll.
	restingPolls = 2
	restingPoll  = time.Minute
)

func (k *Kymas) takePending(kyma types.NamespacedName) (pending bool) {
	k.fleet.Edit(kyma, func(r *fleetstate.Runtime) { pending = r.Pending.Take() })
	return pending
}

// pendingAfter marks the Kyma's pending work as done. If done is false, the work stays pending.
func (k *Kymas) pendingAfter(kyma types.NamespacedName, done bool) {
	k.fleet.Edit(kyma, func(r *fleetstate.Runtime) {
		if done {
			r.Pending.Done(time.Now())
		} else {
			r.Pending.Add(time.Now())
		}
	})
}

// dropPending removes the Kyma's pending work, because the publisher cannot publish a bundle until something changes.
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

// orderOf returns the priority of the next reconcile after a poll or a notification.
func (k *Kymas) orderOf(kyma *v1beta2.Kyma) *int {
	if k.Rollouts.View().Awaits(plan.RuntimeID(kyma)) {
		return new(awaited)
	}
	return new(routine)
}

// pollOf returns the interval at which the publisher reads the runtime's report.
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

// freshEnough returns the maximum age of a known report that a reconcile can use without reading the registry. isDue is
// true if a bundle must be published. The maximum age is then higher, because publishing takes precedence.
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

// nextPoll requeues the Kyma at the next poll or at the time until, whichever is earlier. asked is the time at which
// the report was last read.
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
