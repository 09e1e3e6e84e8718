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

// The order in which Kymas are looked at: what a rollout waits for, then what an event asked for, then what nobody
// asked for. What a notification asks for is among the last: whoever sends notifications all the time would keep polls
// from being made otherwise.
const (
	awaited = 1
	changed = 0
	routine = -1
)

const (
	// awaitedPolls is how many times as often as others a runtime is asked for its report that a rollout waits for.
	awaitedPolls = 6
	// awaitedAtOnce is how many runtimes may be asked so often; of more, each is asked less often.
	awaitedAtOnce = 100
	// restingPolls is how many times less often than others a runtime is asked from which nothing is awaited, and
	// restingPoll how often at least, unless all are asked less often than that.
	restingPolls = 2
	restingPoll  = time.Minute
)

// takePending begins a pass for a Kyma and reports whether it has something to publish.
func (k *Kymas) takePending(kyma types.NamespacedName) (pending bool) {
	k.fleet.Edit(kyma, func(r *fleetstate.Runtime) { pending = r.Pending.Take() })
	return pending
}

// pendingAfter records how a pass ended. If it is not done, the Kyma still has something to publish.
func (k *Kymas) pendingAfter(kyma types.NamespacedName, done bool) {
	k.fleet.Edit(kyma, func(r *fleetstate.Runtime) {
		if done {
			r.Pending.Done(time.Now())
		} else {
			r.Pending.Add(time.Now())
		}
	})
}

// dropPending records that nothing is published to a Kyma until something else changes.
func (k *Kymas) dropPending(kyma types.NamespacedName) {
	k.fleet.Edit(kyma, func(r *fleetstate.Runtime) { r.Pending = fleetstate.Pending{} })
}

// published returns what the publisher knows of a Kyma's runtime.
func (k *Kymas) published(kyma *v1beta2.Kyma) *publish.Record {
	return k.fleet.EditOf(kyma, func(r *fleetstate.Runtime) {
		if r.Published == nil {
			r.Published = &publish.Record{}
		}
	}).Published
}

// inOrder puts the Kymas of events into the queue in their order.
func (k *Kymas) inOrder() handler.EventHandler {
	return handler.Funcs{GenericFunc: func(_ context.Context, e event.GenericEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
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

// orderOf returns the priority of looks at a Kyma that nobody asks for, or only a notification.
func (k *Kymas) orderOf(kyma *v1beta2.Kyma) *int {
	if k.Rollouts.View().Awaits(plan.RuntimeID(kyma)) {
		return new(awaited)
	}
	return new(routine)
}

// pollOf returns how often a Kyma's runtime is asked for its report: more often while a rollout waits for it, and less
// often while nobody does.
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

// restingPollOf returns how often a runtime is asked from which nothing is awaited, where others are asked at an
// interval.
func restingPollOf(poll time.Duration) time.Duration {
	return max(poll, min(restingPolls*poll, restingPoll))
}

// freshEnough returns how old what is known of a runtime's report may be before the registry is asked again. One look
// has something to publish: the report can wait for the next one, so that the whole fleet's bundles go first. A look
// that somebody asked for takes nothing as known.
func (k *Kymas) freshEnough(kyma *v1beta2.Kyma, due bool) time.Duration {
	poll := k.pollOf(kyma)
	switch {
	case plan.Requested(kyma) != "":
		return 0
	case due:
		return 2 * max(poll, k.PollInterval)
	}
	return min(poll, k.PollInterval) / 2
}

// nextPoll is the result of a look after which nothing is to be done but to ask for the report again that was asked for
// at a time, or once the look does not stand any more, whichever is first; zero for one that stands for no other.
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
