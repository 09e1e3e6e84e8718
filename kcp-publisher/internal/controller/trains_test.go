package controller

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestPolicyWithUnwritableStatusDoesNotStopOthers(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 2)
	w.settle()
	policy := func(name string) *fleet.PromotionPolicy {
		return &fleet.PromotionPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: name, Generation: 1},
			Spec: fleet.PromotionPolicySpec{Modules: []string{promotedModule}, Channels: []fleet.TrainChannel{
				{Name: "dev", After: &metav1.Duration{Duration: time.Hour}}, {Name: promotedChannel},
			}},
		}
	}
	api := fake.NewClientBuilder().WithScheme(w.api.Scheme()).WithObjects(policy("a"), policy("b")).
		WithStatusSubresource(&fleet.PromotionPolicy{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			if object.GetName() == "a" {
				return apierrors.NewRequestEntityTooLargeError("the status is too large")
			}
			return c.SubResource(sub).Patch(ctx, object, patch, opts...)
		},
	}).Build()
	trains := &Trains{
		client: api, uncached: api, events: events.NewFakeRecorder(10), catalog: w.kymas.Catalog,
		now: func() time.Time { return w.now }, interval: trainInterval,
	}
	if _, err := trains.Reconcile(quiet(t.Context()), ctrl.Request{}); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("got error %v, want the error of policy a", err)
	}
	other := &fleet.PromotionPolicy{}
	w.must(api.Get(t.Context(), client.ObjectKey{Namespace: "kcp-system", Name: "b"}, other))
	if other.Status.ObservedGeneration != 1 {
		t.Error("policy b was not evaluated, because the status of policy a cannot be written")
	}
}
