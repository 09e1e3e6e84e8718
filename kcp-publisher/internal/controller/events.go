package controller

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
)

// KymaEvents is the value of a flag that selects the Events to emit about runtimes.
type KymaEvents string

// With AllEvents, the publisher emits all Events. With FailureEvents, it emits only Events about failures.
const (
	AllEvents     KymaEvents = "all"
	FailureEvents KymaEvents = "failures"
)

// ParseKymaEvents parses a flag value: all or failures.
func ParseKymaEvents(text string) (KymaEvents, error) {
	if e := KymaEvents(text); slices.Contains([]KymaEvents{AllEvents, FailureEvents}, e) {
		return e, nil
	}
	return "", fmt.Errorf("unknown value %q, must be %s or %s", text, AllEvents, FailureEvents)
}

func (k *Kymas) emitChanges(before v1beta2.KymaStatus, kyma *v1beta2.Kyma) {
	for _, e := range ingest.EventsBetween(before, kyma.Status) {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		k.emitEvent(kyma, kind, e.Reason, "Reconcile", e.Note)
	}
}

// emitEvent emits an Event about a Kyma. If k.KymaEvents is FailureEvents, it emits only Warning Events.
func (k *Kymas) emitEvent(kyma *v1beta2.Kyma, kind, reason, action, note string) {
	if kind == corev1.EventTypeNormal && k.KymaEvents == FailureEvents {
		return
	}
	k.Events.Eventf(kyma, nil, kind, reason, action, "%s", eventNote(note))
}

// announceEvent emits an Event about a runtime's report. It drops the Event if the runtime has caused too many Events
// recently.
func (k *Kymas) announceEvent(kyma *v1beta2.Kyma, related runtime.Object, kind, reason, note string) {
	if k.mayAnnounce(kyma, kind) {
		k.Events.Eventf(kyma, related, kind, reason, "Ingest", "%s", eventNote(note))
	}
}

// mayAnnounce reports whether another Event about the runtime is allowed, and counts the Event.
func (k *Kymas) mayAnnounce(kyma *v1beta2.Kyma, kind string) bool {
	allowed := false
	k.fleet.EditCurrent(kyma, func(r *fleetstate.Runtime) {
		allowed = r.AllowEvent(kind == corev1.EventTypeWarning, k.Now())
	})
	return allowed
}
