package agent

import (
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// recordRemoved logs lifecycle-manager's removed objects and emits an Event.
func (a *Agent) recordRemoved(log logr.Logger, kyma *v1beta2.Kyma, removed []bundle.ObjectRef) {
	if len(removed) == a.loggedLeftovers {
		return
	}
	a.loggedLeftovers = len(removed)
	names := make([]string, len(removed))
	for i, o := range removed {
		names[i] = o.String()
	}
	text := strings.Join(names, ", ")
	log.Info("removed leftovers of lifecycle-manager", "objects", text)
	if kyma != nil {
		note := bundle.Bounded("removed leftovers of lifecycle-manager: "+text, bundle.MaxNoteBytes)
		a.Events.Eventf(kyma, nil, corev1.EventTypeNormal, v1beta2.ReasonLeftoverRemoved, "Clean", "%s", note)
	}
}
