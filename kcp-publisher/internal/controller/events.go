package controller

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
)

// KymaEvents are which Events are made of what happens to runtimes. Each is a write to the API server.
type KymaEvents string

// AllEvents tells of everything; FailureEvents only of what is wrong.
const (
	AllEvents     KymaEvents = "all"
	FailureEvents KymaEvents = "failures"
)

// ParseKymaEvents returns what a flag says.
func ParseKymaEvents(text string) (KymaEvents, error) {
	if e := KymaEvents(text); slices.Contains([]KymaEvents{AllEvents, FailureEvents}, e) {
		return e, nil
	}
	return "", fmt.Errorf("%q is none of %s and %s", text, AllEvents, FailureEvents)
}

// tell makes Events of what a status says that was written just now.
func (k *Kymas) tell(before v1beta2.KymaStatus, kyma *v1beta2.Kyma) {
	for _, e := range ingest.Happened(before, kyma.Status) {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		k.event(kyma, kind, e.Reason, "Reconcile", e.Note)
	}
}

// event makes an Event of what happens to a runtime, unless those of its kind are not wanted. What a Watcher asks to be
// told of is none of these.
func (k *Kymas) event(kyma *v1beta2.Kyma, kind, reason, action, note string) {
	if kind == corev1.EventTypeNormal && k.KymaEvents == FailureEvents {
		return
	}
	k.Events.Eventf(kyma, nil, kind, reason, action, "%s", noted(note))
}
