package agent

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// outageEvents is the least time between two Events that say that no bundle can be read: a registry that comes and goes
// makes no more.
const outageEvents = 5 * time.Minute

// outage is whether bundles can be read from the registry. The Pod stays ready meanwhile: what runs keeps running, and
// an upgrade of the agent that waited for its Pods would be rolled back for the registry's sake.
type outage struct {
	// why is why no bundle can be read, as it was when that began; empty when bundles can be read.
	why string
	// told is when an Event told of an outage last, open whether it told of this one.
	told time.Time
	open bool
}

// next returns the outage after another poll, and whether an Event is to tell of the change. The error says why no
// bundle can be read, nil when one can.
func (o outage) next(err error, now time.Time) (after outage, tell bool) {
	switch {
	case err != nil && o.why == "":
		o.why = bundle.Bounded(err.Error(), bundle.MaxNoteBytes)
		if o.told.IsZero() || now.Sub(o.told) >= outageEvents {
			o.told, o.open = now, true
			return o, true
		}
	case err == nil && o.why != "":
		tell, o.why, o.open = o.open, "", false
		return o, tell
	}
	return o, false
}

// noteRegistry tells who looks at the runtime whether bundles can be read. Before the first bundle there is no Kyma
// that could say it, but Events in its name can be found.
func (a *Agent) noteRegistry(err error) {
	after, tell := a.outage.next(err, a.Now())
	a.outage = after
	if !tell {
		return
	}
	kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: v1beta2.RuntimeKymaName}}
	if after.why == "" {
		a.Events.Eventf(kyma, nil, corev1.EventTypeNormal, v1beta2.ReasonRegistryAvailable, "Pull", "bundles can be read again from %s", a.Place.String())
		return
	}
	note := bundle.Bounded("no bundle can be read from "+a.Place.String()+", what is in force stays: "+after.why, bundle.MaxNoteBytes)
	a.Events.Eventf(kyma, nil, corev1.EventTypeWarning, v1beta2.ReasonRegistryUnavailable, "Pull", "%s", note)
}
