package agent

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// queue is the work queue for the agent's only controller.
type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// request is the only request that the controller reconciles. It names the runtime's Kyma.
var request = ctrl.Request{
	NamespacedName: client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: v1beta2.RuntimeKymaName},
}

// requestAfter returns an event handler that starts a reconciliation after a delay.
func requestAfter(after time.Duration) handler.EventHandler {
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, _ event.CreateEvent, q queue) { q.AddAfter(request, after) },
		UpdateFunc:  func(_ context.Context, _ event.UpdateEvent, q queue) { q.AddAfter(request, after) },
		DeleteFunc:  func(_ context.Context, _ event.DeleteEvent, q queue) { q.AddAfter(request, after) },
		GenericFunc: func(_ context.Context, _ event.GenericEvent, q queue) { q.AddAfter(request, after) },
	}
}

// notify requests an immediate poll. It does not block, and is safe for concurrent use.
func (a *Agent) notify() {
	a.notified.Store(true)
	a.Trigger.Request()
}

// Trigger makes an Agent reconcile immediately. It is safe for concurrent use.
type Trigger chan event.GenericEvent

// NewTrigger returns a Trigger without a pending request.
func NewTrigger() Trigger { return make(Trigger, 1) }

// Request requests an immediate reconciliation. It does not block.
func (t Trigger) Request() {
	select {
	case t <- event.GenericEvent{Object: &v1beta2.Kyma{}}:
	default: // a reconciliation is already requested
	}
}
