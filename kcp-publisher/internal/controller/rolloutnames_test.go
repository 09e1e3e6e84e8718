package controller

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// A Rollout of another module already has the name that the next Rollout would get. For all other modules, the
// publisher must still use the newest catalog.
func TestRolloutWithADuplicateNameHoldsOnlyItsModule(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 4)
	w.settle()
	recorder := events.NewFakeRecorder(100)
	w.kymas.Rollouts.Events = recorder
	foreign := &fleet.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "keda-regular-1"},
		Spec: fleet.RolloutSpec{
			Policy: "careful", Module: "another", Channel: promotedChannel, Revision: 1, From: "1.0.0", To: "2.0.0",
			Course: w.policy().Spec.Course,
		},
	}
	w.must(w.api.Create(t.Context(), foreign))
	w.promote("1.1.0")
	w.settle()
	if view := w.kymas.Rollouts.View(); view == nil || view.Catalog != w.kymas.Catalog.Snapshot() {
		t.Fatal("the publisher does not use the newest catalog, so one module stops all others")
	}
	if len(recorder.Events) == 0 {
		t.Fatal("no Event reports the Rollout that cannot be created")
	}
	if event := <-recorder.Events; !strings.Contains(event, `is for module "another" in channel "regular": delete it`) {
		t.Errorf("got Event %q, want the conflicting Rollout", event)
	}
	w.must(w.api.Delete(t.Context(), foreign))
	w.settle()
	if r := w.rollout(); r == nil || r.Spec.Module != promotedModule || r.Status.State != fleet.RolloutSucceeded {
		t.Errorf("got rollout %+v after the deletion, want the module's successful Rollout", r)
	}
}
