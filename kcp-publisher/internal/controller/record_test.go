package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
)

func TestDataThatMustSurviveACrashIsDetected(t *testing.T) {
	with := func(thumbprint string, sequence int64, secrets ...string) *v1beta2.RuntimeStatus {
		s := &v1beta2.RuntimeStatus{ReportSequence: sequence, Secrets: secrets}
		if thumbprint != "" {
			s.Key = &v1beta2.RuntimeKey{Thumbprint: thumbprint}
		}
		return s
	}
	takenOver := func(adopted bool) *v1beta2.RuntimeStatus {
		s := with("a", 1)
		s.Takeover = &v1beta2.TakeoverStatus{
			Modules: []v1beta2.InheritedModule{{Name: "keda", Version: "1.7.0", Adopted: adopted}},
		}
		return s
	}
	for name, c := range map[string]struct {
		before, after *v1beta2.RuntimeStatus
		want          bool
	}{
		"no status":             {nil, nil, false},
		"runtime without a key": {nil, with("", 1), false},
		"enrolled runtime":      {nil, with("a", 1), true},
		"new key":               {with("a", 1), with("b", 2), true},
		"new report":            {with("a", 1, "x"), with("a", 2, "x"), false},
		"new Secret":            {with("a", 1), with("a", 1, "x"), true},
		"started takeover":      {with("a", 1), takenOver(false), true},
		"adopted module":        {takenOver(false), takenOver(true), true},
		"unchanged takeover":    {takenOver(true), takenOver(true), false},
		"removed Secret":        {with("a", 1, "x", "y"), with("a", 1, "x"), true},
	} {
		if got := mustPersist(c.before, c.after); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}

// The publisher must store an agent's new key together with the sequence number of the report before it publishes the
// next bundle.
func TestNewKeyIsStoredWithReportedStates(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	before := kymaOf("one")
	before.Status = v1beta2.KymaStatus{
		State:   v1beta2.StateReady,
		Modules: []v1beta2.ModuleStatus{{Name: "keda", Version: "1.0.0", State: v1beta2.StateReady}},
		Runtime: &v1beta2.RuntimeStatus{
			Key:       &v1beta2.RuntimeKey{Thumbprint: "old"},
			Published: &v1beta2.PublishedBundle{Epoch: 1, Sequence: 7, Digest: "sha256:seven"},
		},
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(before).WithStatusSubresource(before).Build()
	k := &Kymas{
		Client: api, Events: events.NewFakeRecorder(10), Catalog: &Catalog{Changes: NewChanges()},
		fleet: fleetstate.New(), Now: func() time.Time { return noon },
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(api.Get(t.Context(), client.ObjectKeyFromObject(before), before))
	after := before.DeepCopy()
	after.Status.Runtime.Key.Thumbprint, after.Status.Runtime.ReportSequence = "new", 9
	report := &bundle.AcceptedReport{Enrolled: true, Report: bundle.Report{
		Sequence: 9, Modules: []bundle.ReportedModule{{Name: "keda", Version: "1.2.0", State: v1beta2.StateDeleting}},
	}}
	must(k.persistNewData(quiet(t.Context()), before, after, ingest.Facts{Report: report}))
	var stored v1beta2.Kyma
	must(api.Get(t.Context(), client.ObjectKeyFromObject(before), &stored))
	if got := stored.Status; got.Runtime.Key.Thumbprint != "new" || got.Modules[0].State != v1beta2.StateDeleting ||
		got.State != v1beta2.StateProcessing {
		t.Errorf("got key %s and modules %+v in state %s, want the new key and the reported state Deleting",
			got.Runtime.Key.Thumbprint, got.Modules, got.State)
	}
}

// The API server rejects the status update that ends a runtime's silence. The publisher must not emit the Event about
// the end of the silence yet, because the next reconcile would emit the Event again.
func TestUnwrittenStatusEmitsNoEvents(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	before := kymaOf("one")
	reporting := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{
			{
				Type: v1beta2.ConditionReporting, Status: status, Reason: reason, Message: "words",
				LastTransitionTime: metav1.NewTime(noon),
			},
		}
	}
	before.Status.Conditions = reporting(metav1.ConditionFalse, v1beta2.ReasonSilent)
	writes := 0
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(before).WithStatusSubresource(before).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
				opts ...client.SubResourcePatchOption) error {
				if writes++; writes == 1 {
					return apierrors.NewInvalid(schema.GroupKind{Kind: "Kyma"}, "one", nil)
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	recorder := events.NewFakeRecorder(10)
	k := &Kymas{
		Client: api, Events: recorder, Catalog: &Catalog{Changes: NewChanges()}, fleet: fleetstate.New(),
		Now: func() time.Time { return noon },
	}
	after := before.DeepCopy()
	after.Status.Conditions = reporting(metav1.ConditionTrue, v1beta2.ReasonReported)
	if err := k.writeStatus(quiet(t.Context()), before, after); err != nil || writes != 2 {
		t.Fatalf("got %d writes and error %v, want 2 writes", writes, err)
	}
	close(recorder.Events)
	for event := range recorder.Events {
		if strings.Contains(event, v1beta2.ReasonRuntimeHeard) {
			t.Errorf("got Event for a status that was not written: %s", event)
		}
	}
}
