package controller

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/reconcile"
)

// The publisher has read a report but cannot publish, because the registry is down. Later, the runtime counts as
// silent.
func TestReportedStatesAreRecordedWhileTheRegistryIsDown(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 2)
	w.settle()
	for _, state := range []reconcile.State{reconcile.Unreachable, reconcile.Held} {
		kyma := &v1beta2.Kyma{}
		w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "kcp-system", Name: "runtime-001"}, kyma))
		last := kyma.Status.Runtime.Observed
		report := bundle.Report{
			Runtime: "runtime-001", Sequence: kyma.Status.Runtime.ReportSequence + 1, Time: w.now,
			Observed: &bundle.Observed{Epoch: last.Epoch, Sequence: last.Sequence, Digest: "sha256:other"},
			Modules: []bundle.ReportedModule{
				{Name: promotedModule, Version: "1.0.0", State: v1beta2.StateError, Message: "the Manifest is missing"},
			},
		}
		w.kymas.reports.storeReport(kyma, fleetstate.Report{ArrivedAt: w.now, Accepted: &bundle.AcceptedReport{
			Report: report, Digest: "sha256:report", Content: "sha256:content",
			Key: trusttest.PublicKey(t, w.victimKey.signer),
		}})
		p := &pass{kyma: kyma, newest: w.kymas.reports.lastKnown(kyma)}
		p.copyKyma()
		p.facts.Admitted = reconcile.Yes
		w.now = w.now.Add(25 * time.Hour)
		if !w.kymas.updateStatus(p, state) {
			t.Errorf("%v: the status is not written, although the runtime is silent", state)
		}
		after := p.kyma.Status
		if after.Runtime.ReportSequence != report.Sequence || after.Modules[0].State != v1beta2.StateError {
			t.Errorf("%v: got report %d and modules %+v, want report %d and state Error", state,
				after.Runtime.ReportSequence, after.Modules, report.Sequence)
		}
	}
}
