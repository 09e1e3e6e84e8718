package agent

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// outageEvents is the minimum time between Events about two outages. It limits the Events that an unstable registry
// causes.
const outageEvents = 5 * time.Minute

// outage is the registry's current outage. It does not affect the Pod's readiness, because modules continue to work.
type outage struct {
	// reason is the first error in the current outage. It is empty if the registry is available.
	reason string
	// eventAt is the time of the last Event about an outage. hasEvent is true if an Event was emitted for the current
	// outage.
	eventAt  time.Time
	hasEvent bool
}

// update returns the state after a registry poll that ended with err. It also reports whether to emit an Event.
func (o outage) update(err error, now time.Time) (after outage, emit bool) {
	switch {
	case err != nil && o.reason == "":
		o.reason = bundle.Bounded(err.Error(), bundle.MaxNoteBytes)
		if o.eventAt.IsZero() || now.Sub(o.eventAt) >= outageEvents {
			o.eventAt, o.hasEvent = now, true
			return o, true
		}
	case err == nil && o.reason != "":
		emit, o.reason, o.hasEvent = o.hasEvent, "", false
		return o, emit
	}
	return o, false
}

// emitRegistryEvent emits an Event when a registry outage starts and ends. The Event refers to the Kyma only by name,
// because the Kyma does not exist before the first bundle.
func (a *Agent) emitRegistryEvent(err error) {
	after, emit := a.outage.update(err, a.Now())
	a.outage = after
	if !emit {
		return
	}
	kyma := &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: v1beta2.RuntimeKymaName},
	}
	if after.reason == "" {
		a.Events.Eventf(kyma, nil, corev1.EventTypeNormal, v1beta2.ReasonRegistryAvailable, "Pull",
			"bundles can be read from %s again", a.Puller.Location().String())
		return
	}
	note := bundle.Bounded("failed to read bundles from "+a.Puller.Location().String()+
		", continuing with the last accepted bundle: "+after.reason, bundle.MaxNoteBytes)
	a.Events.Eventf(kyma, nil, corev1.EventTypeWarning, v1beta2.ReasonRegistryUnavailable, "Pull", "%s", note)
}

func (a *Agent) emitEvent(ctx context.Context, reason, note string) {
	kyma := &v1beta2.Kyma{}
	if err := a.Client.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: v1beta2.RuntimeKymaName},
		kyma); err == nil {
		a.Events.Eventf(kyma, nil, corev1.EventTypeWarning, reason, "Pull", "%s",
			bundle.Bounded(note, bundle.MaxNoteBytes))
	}
}
