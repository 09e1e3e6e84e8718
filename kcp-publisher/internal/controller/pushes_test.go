package controller

import (
	"testing"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
)

// TestReportsWaitAfterManyBundles notifies the publisher about a new report from a runtime that has recently received
// many bundles. Each report can cause another bundle, so the publisher must not read the report yet.
func TestReportsWaitAfterManyBundles(t *testing.T) {
	w, asked := atRest(t, 2)
	one := types.NamespacedName{Namespace: "kcp-system", Name: "runtime-001"}
	repository, err := w.place.Repository(t.Context(), bundle.DesiredRepository(one.Name))
	w.must(err)
	newest := func() digest.Digest {
		found, err := store.Head(t.Context(), repository, bundle.TagDesired)
		w.must(err)
		return found
	}
	notified := func() int {
		t.Helper()
		asked.taken()
		w.kymas.reports.recordNotification(one)
		w.poll()
		sent := asked.taken()
		return sent["HEAD reports"] + sent["GET reports"]
	}
	toggle := func(kyma *v1beta2.Kyma) {
		kyma.Labels = map[string]string{v1beta2.LabelSync: v1beta2.False}
		kyma.Spec.SkipMaintenanceWindows = !kyma.Spec.SkipMaintenanceWindows
	}
	for n := range fleetstate.PushBurst {
		if reads := notified(); reads != 1 {
			t.Fatalf("after %d bundles: got %d reads of reports, want 1", n, reads)
		}
		before := newest()
		w.changed(one, toggle)
		if w.poll(); newest() == before {
			t.Fatalf("change %d of the Kyma caused no bundle", n)
		}
	}
	if reads := notified(); reads != 0 {
		t.Errorf("after %d bundles: got %d reads of reports, want 0", fleetstate.PushBurst, reads)
	}
	before := newest()
	w.changed(one, toggle)
	if w.poll(); newest() == before {
		t.Error("the change of an operator waited")
	}
	w.now = w.now.Add(fleetstate.PushInterval)
	if reads := notified(); reads == 0 {
		t.Errorf("after another %s: got no read of reports", fleetstate.PushInterval)
	}
}
