package controller

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// Without the webhook, the API server accepts an expression that agents cannot compile.
func TestPolicyWithAnInvalidExpressionStartsNoRollout(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 4)
	w.settle()
	recorder := events.NewFakeRecorder(100)
	w.kymas.Rollouts.Events = recorder
	set := func(expression string) {
		policy := w.policy()
		w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(policy), policy))
		policy.Spec.Waves[0].Checks = []fleet.Check{{Name: "ready", CEL: &fleet.CELCheck{Expression: expression}}}
		w.must(w.api.Update(t.Context(), policy))
	}
	set("objcts == []")
	w.promote("1.1.0")
	w.settle()
	if r := w.rollout(); r != nil {
		t.Fatalf("got rollout %+v, want none", r)
	}
	if len(recorder.Events) == 0 {
		t.Fatal("no Event reports the invalid policy")
	}
	if event := <-recorder.Events; !strings.Contains(event, "policy careful is invalid: "+
		"spec.waves[0].checks[0].cel.expression: line 1, column 1: undeclared reference to 'objcts'") {
		t.Errorf("got Event %q, want the invalid field", event)
	}
	set("true")
	w.settle()
	if r := w.rollout(); r == nil {
		t.Error("got no rollout after the correction of the policy")
	}
}
