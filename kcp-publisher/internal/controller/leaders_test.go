package controller

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
)

// For a short time after a publisher has lost its Lease, two publishers can reconcile the same runtime.
func TestFormerLeaderDoesNotOverwriteANewerStatus(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 2)
	w.must(w.api.Delete(t.Context(), w.policy()))
	request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "kcp-system", Name: "runtime-001"}}
	read := func() *v1beta2.Kyma {
		t.Helper()
		kyma := &v1beta2.Kyma{}
		w.must(w.api.Get(t.Context(), request.NamespacedName, kyma))
		return kyma
	}
	cached := read() // before anything was published
	w.settle()
	first, early := w.kymas, read().Status.Runtime
	w.restart()
	w.promote("1.1.0")
	w.settle()
	newest := read()
	if r := newest.Status.Runtime; r.Published.Sequence <= early.Published.Sequence ||
		r.ReportSequence <= early.ReportSequence {
		t.Fatalf("the second publisher recorded bundle %d and report %d, want newer ones than the first",
			r.Published.Sequence, r.ReportSequence)
	}

	w.kymas = first
	first.PollInterval = time.Hour // do not read the reports again
	w.poll()
	seen := read()
	if was, is := newest.Status.Runtime, seen.Status.Runtime; is.Published.Sequence < was.Published.Sequence ||
		is.ReportSequence < was.ReportSequence {
		t.Errorf("got bundle %d and report %d in the status, want at least bundle %d and report %d",
			is.Published.Sequence,
			is.ReportSequence, was.Published.Sequence, was.ReportSequence)
	}
	if !equality.Semantic.DeepEqual(seen.Status.Modules, newest.Status.Modules) {
		t.Errorf("the modules in the status are %+v, want %+v", seen.Status.Modules, newest.Status.Modules)
	}

	w.patches = 0
	first.Client = interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if kyma, is := o.(*v1beta2.Kyma); is {
				cached.DeepCopyInto(kyma)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	result, err := first.Reconcile(quiet(t.Context()), request)
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
		t.Errorf("a conflict returned requeue after %s and error %v, want a short delay and no error",
			result.RequeueAfter, err)
	}
	if now := read(); w.patches == 0 || now.ResourceVersion != seen.ResourceVersion {
		t.Errorf("%d writes based on an old version changed the Kyma: %+v", w.patches, now.Status.Runtime)
	}
}

func TestOlderOrForeignReportDoesNotReplaceAReport(t *testing.T) {
	signer := trusttest.NewSigner(t)
	mine := &v1beta2.RuntimeKey{Thumbprint: trusttest.Thumbprint(t, signer)}
	at := noon.UnixMilli()
	known := fleetstate.Report{
		Accepted: &bundle.AcceptedReport{Report: bundle.Report{Sequence: at}, Key: trusttest.PublicKey(t, signer)},
	}
	for name, c := range map[string]struct {
		known  fleetstate.Report
		status *v1beta2.RuntimeStatus
		want   bool
	}{
		"Kyma without a runtime status": {known, nil, false},
		"publisher without a report": {
			fleetstate.Report{}, &v1beta2.RuntimeStatus{Key: mine, ReportSequence: at + 1}, false,
		},
		"status has the publisher's report": {known, &v1beta2.RuntimeStatus{Key: mine, ReportSequence: at}, false},
		"status has a newer report":         {known, &v1beta2.RuntimeStatus{Key: mine, ReportSequence: at + 1}, true},
		"status has an older report":        {known, &v1beta2.RuntimeStatus{Key: mine, ReportSequence: at - 1}, false},
		"status has a report signed with a different key": {
			known, &v1beta2.RuntimeStatus{Key: &v1beta2.RuntimeKey{Thumbprint: "other"}, ReportSequence: at + 1}, false,
		},
		"status has a report far ahead of this clock": {
			known, &v1beta2.RuntimeStatus{Key: mine, ReportSequence: noon.Add(trust.MaxClockSkew).UnixMilli() + 1},
			false,
		},
		"status has a newer report but no key": {known, &v1beta2.RuntimeStatus{ReportSequence: at + 1}, false},
	} {
		if got := c.known.IsOvertaken(c.status, noon); got != c.want {
			t.Errorf("%s: got overtaken %t, want %t", name, got, c.want)
		}
	}
}
