package controller

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// Without the webhook, the API server accepts an expression that agents cannot compile.
func TestPolicyWithAnInvalidExpressionStartsNoRollout(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 4)
	w.settle()
	recorder := events.NewFakeRecorder(100)
	w.kymas.Rollouts.Events = recorder
	w.setCheck("objcts == []")
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
	w.setCheck("true")
	w.settle()
	if r := w.rollout(); r == nil {
		t.Error("got no rollout after the correction of the policy")
	}
}

func (w *waves) setCheck(expression string) {
	policy := w.policy()
	w.must(w.api.Get(w.Context(), client.ObjectKeyFromObject(policy), policy))
	policy.Spec.Waves[0].Checks = []fleet.Check{{Name: "ready", CEL: &fleet.CELCheck{Expression: expression}}}
	w.must(w.api.Update(w.Context(), policy))
}

// The refused Rollout is the first of its track, so no object in the API server shows the shard that it must wait.
func TestShardHoldsVersionsOfARefusedRollout(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 4)
	w.settle()
	w.setCheck("objcts == []")
	w.promote("1.1.0")
	_, err := w.kymas.Catalog.Reconcile(t.Context(), ctrl.Request{})
	w.must(err)
	newRollouts := func() *Rollouts {
		r := w.kymas.Rollouts
		return &Rollouts{
			Client: r.Client, Events: r.Events, Catalog: r.Catalog, Interval: r.Interval, Now: r.Now, lastReport: r.lastReport,
		}
	}
	var announced shard.Announcement
	planner := newRollouts()
	planner.announce = func(_ context.Context, _ *catalog.Snapshot, result shard.Announcement) error {
		announced = result
		return nil
	}
	reconcile := func(r *Rollouts) {
		_, err := r.Reconcile(t.Context(), ctrl.Request{})
		w.must(err)
	}
	reconcile(planner)
	text, err := json.Marshal(announced)
	w.must(err)
	var received shard.Announcement
	w.must(json.Unmarshal(text, &received))
	remote := &RemotePlanner{fleet: fleetstate.New(), RemoteOptions: RemoteOptions{
		Announced: func() (shard.Announcement, bool) { return received, true },
	}}
	own := newRollouts()
	own.remote = remote
	reconcile(own)
	view := own.View()
	if view == nil {
		t.Fatal("the shard has no view of the announced state")
	}
	gate := view.Gates[rollout.Track{Module: promotedModule, Channel: promotedChannel}]
	if gate == nil {
		t.Fatal("the shard gives all runtimes the promoted version")
	}
	if d := gate.Decide("runtime-001", "1.0.0"); d.Version != "1.0.0" ||
		!strings.Contains(d.HeldReason, "policy careful is invalid") {
		t.Errorf("got %+v, want version 1.0.0 and the reason", d)
	}
}
