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

// Priorities of reconciles, highest first. priorityAwaited is for runtimes from which a rollout awaits a report,
// priorityChanged is for changes, and priorityRoutine is for polls and notifications.
const (
	priorityAwaited = 1
	priorityChanged = 0
	priorityRoutine = -1
)

const (
	// While a rollout is waiting for a runtime's report, the publisher reads the report awaitedPolls times per poll
	// interval.
	awaitedPolls = 6
	// If rollouts await reports from more than maxAwaited runtimes, the publisher reads each of these reports less
	// often.
	maxAwaited = 100
	// The publisher reads the reports of idle runtimes less often: it multiplies the poll interval by restingFactor, up
	// to maxRestingPoll.
	restingFactor  = 2
	maxRestingPoll = time.Minute
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

// priorityOf returns the priority of the next reconcile after a poll or a notification.
func (k *Kymas) priorityOf(kyma *v1beta2.Kyma) *int {
	if k.Rollouts.View().IsAwaited(plan.RuntimeID(kyma)) {
		return new(priorityAwaited)
	}
	return new(priorityRoutine)
}

// pollInterval returns the interval at which the publisher reads the runtime's report.
func (k *Kymas) pollInterval(kyma *v1beta2.Kyma) time.Duration {
	view := k.Rollouts.View()
	if !view.IsAwaited(plan.RuntimeID(kyma)) {
		if plan.IsResting(kyma) {
			return restingInterval(k.PollInterval)
		}
		return k.PollInterval
	}
	soon := k.PollInterval / awaitedPolls
	return min(soon*time.Duration(max(len(view.AwaitedRuntimes), maxAwaited))/maxAwaited, k.PollInterval)
}

func restingInterval(poll time.Duration) time.Duration {
	return max(poll, min(restingFactor*poll, maxRestingPoll))
}

// maxReportAge returns the maximum age of a report that a reconcile can use without reading the registry again. If
// isDue is true, a bundle must be published, and the maximum age is higher, because publishing takes precedence.
func (k *Kymas) maxReportAge(kyma *v1beta2.Kyma, isDue bool) time.Duration {
	poll := k.pollInterval(kyma)
	switch {
	case plan.ReconcileRequest(kyma) != "":
		return 0
	case isDue:
		return 2 * max(poll, k.PollInterval)
	}
	return min(poll, k.PollInterval) / 2
}

// nextPoll requeues the Kyma for its next poll, or for the time until if that is earlier. asked is the time at which
// the runtime's report was last read.
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
