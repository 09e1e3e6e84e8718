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
)

func TestIrrecoverableStatusIsWrittenBeforeTheBundle(t *testing.T) {
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

// The API server refuses a status that ends a runtime's silence. The publisher must not emit an Event for this status,
// because the next reconcile would repeat it.
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
	k := &Kymas{Client: api, Events: recorder, Catalog: &Catalog{}, Now: func() time.Time { return noon }}
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
