package publish

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// The catalog hides a module, and the limits allow its removal. The bundle removes the module only if no rollout holds
// the removal, and contains the module again if the rollout is rolled back.
func TestAllowedRemovalWaitsForItsWave(t *testing.T) {
	f, runtime := newScalerFleet(t), runtimeNamed("one")
	runtime.IsInUse = true
	p := f.started()
	p.DecideRemovals = func(_ context.Context, r plan.NewRemovals, _ *catalog.Snapshot) (plan.RemovalDecision, error) {
		return plan.RemovalDecision{RemovedModules: r.Modules}, nil
	}
	recorded := after(f.publish(p, runtime, "1.0.0", nil, scalerIn("regular")).Published)
	hidden, err := catalog.New(f.templates, []v1beta2.ModuleReleaseMeta{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "scaler"},
		Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: "scaler", OcmComponentName: scalerComponent, Beta: true,
			Channels: []v1beta2.ChannelVersion{{Channel: "regular", Version: "1.1.0"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		gate    *rollout.Decision
		version string
		removed []string
		isSaved bool
	}{
		{"wave that has not started", &rollout.Decision{HeldReason: "wave all"}, "1.0.0", nil, true},
		{"started wave", nil, "", []string{"scaler"}, false},
		{
			"rolled-back removal",
			&rollout.Decision{Version: "1.0.0", ReplacedVersion: "removed", HeldReason: "rolled back"}, "1.0.0", nil, true,
		},
	} {
		request := resolve.Request{Seed: scalerIn("regular"), Requested: scalerIn("regular")}
		if runtime.RecordedBundle = recorded; c.gate != nil {
			request.RemovalGates = map[string]rollout.Decision{"scaler": *c.gate}
		}
		in := Input{Runtime: runtime, Request: request, Catalog: hidden}
		outcome, err := p.Publish(t.Context(), f.record(p, runtime.ID), in)
		if err != nil {
			t.Fatal(err)
		}
		f.now, recorded = f.now.Add(time.Minute), after(outcome.Published)
		if got := outcome.Published.Versions["scaler"]; got != c.version ||
			!slices.Equal(outcome.Published.Predicate.Removals, c.removed) {
			t.Errorf("%s: got version %q and removals %v, want %q and %v", c.name, got, outcome.Published.Predicate.Removals,
				c.version, c.removed)
		}
		before := []v1beta2.ModuleRemoval{{Module: "scaler", Decision: v1beta2.RemovalApproved, Time: metav1.NewTime(f.now)}}
		saved := plan.RemovalStatuses(before, outcome.Removals, &outcome.Published, f.now)
		if isSaved := len(saved) == 1 && !saved[0].Published; isSaved != c.isSaved {
			t.Errorf("%s: the decision is kept for later: %t, want %t", c.name, isSaved, c.isSaved)
		}
	}
}
