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
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
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
		now: func() time.Time { return w.now }, interval: trainInterval, isReporting: w.kymas.isReporting,
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

// A runtime may have stopped while no publisher was running. The Kyma's status still shows that the runtime reports.
func TestTrainCountsOnlyRuntimesWithCurrentReports(t *testing.T) {
	for name, c := range map[string]struct {
		recorded time.Duration // before noon
		received time.Duration // before noon, or 0 if this publisher has not read the report
		carried  string
		want     bool
	}{
		"recent report":                      {recorded: 10 * time.Minute, want: true},
		"old report that was not read yet":   {recorded: 3 * time.Hour},
		"unchanged report that arrived":      {recorded: 3 * time.Hour, received: time.Minute, want: true},
		"unchanged report that arrived late": {recorded: 3 * time.Hour, received: 2 * time.Hour},
		"report from before a long outage":   {recorded: 72 * time.Hour},
		"report carried by hand":             {recorded: 72 * time.Hour, carried: v1beta2.True, want: true},
		"report carried by hand long ago":    {recorded: 100 * 24 * time.Hour, carried: v1beta2.True},
	} {
		t.Run(name, func(t *testing.T) {
			kyma, now := kymaOf("one"), func() time.Time { return noon }
			at := metav1.NewTime(noon.Add(-c.recorded))
			kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: c.carried}
			kyma.Status.Conditions = []metav1.Condition{{Type: v1beta2.ConditionReporting, Status: metav1.ConditionTrue}}
			kyma.Status.Runtime = &v1beta2.RuntimeStatus{ID: "one", Observed: &v1beta2.ObservedBundle{
				Time: at, Heard: &at, Report: "sha256:report",
			}}
			k := &Kymas{Now: now, reports: newReports(nil, now, fleetstate.New(), NewSlimmer())}
			k.Rules.SilenceTimeout = 30 * time.Minute
			if c.received > 0 {
				arrived := noon.Add(-c.received)
				accepted := bundle.AcceptedReport{Content: "sha256:report", Report: bundle.Report{Time: arrived}}
				k.reports.storeReport(kyma, fleetstate.Report{Accepted: &accepted, ArrivedAt: arrived, AskedAt: noon})
			}
			if got := k.isReporting(kyma); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
			kyma.Status.Conditions[0].Status = metav1.ConditionFalse
			if k.isReporting(kyma) {
				t.Error("a runtime counts although the condition Reporting is False")
			}
		})
	}
}
