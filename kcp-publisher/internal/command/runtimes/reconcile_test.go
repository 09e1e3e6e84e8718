package runtimes

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/selection"
)

// manyRuntimes is the number of runtimes in a test. It is larger than the number of parallel requests.
const manyRuntimes = 30

// reconcileMany runs the command for many runtimes. The simulated publisher handles requests once it has received
// handledAfter of them. reconcileMany returns the number of requests.
func reconcileMany(ctx context.Context, t *testing.T, handledAfter int, timeout time.Duration) (int, string, error) {
	t.Helper()
	scheme, err := controlplane.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int32
	build := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			requests.Add(1)
			return api.Patch(ctx, object, patch, options...)
		},
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			err := api.Get(ctx, key, object, options...)
			if kyma, is := object.(*v1beta2.Kyma); is && int(requests.Load()) >= handledAfter {
				kyma.Status.LastHandledReconcileAt = kyma.Annotations[v1beta2.AnnotationReconcileRequested]
			}
			return err
		},
	})
	var all []selection.Target
	for i := range manyRuntimes {
		kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: fmt.Sprintf("r-%02d", i)}}
		build, all = build.WithObjects(kyma), append(all, selection.Target{ID: kyma.Name, Kyma: kyma.DeepCopy()})
	}
	var out strings.Builder
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	r := reconciler{api: build.Build(), progress: selection.NewProgress(cmd, "reconcile", len(all)), timeout: timeout}
	err = r.run(ctx, all)
	return int(requests.Load()), out.String(), err
}

func TestReconcileRequestsAllRuntimesBeforeItWaits(t *testing.T) {
	_, out, err := reconcileMany(t.Context(), t, manyRuntimes, 20*time.Second)
	if err != nil || strings.Count(out, " reconciled after ") != manyRuntimes ||
		!strings.HasSuffix(out, "\n30 runtimes changed\n") {
		t.Errorf("got %v and\n%s", err, out)
	}
}

// The simulated publisher handles no requests, so reconcile must wait for one timeout, not for one per runtime.
func TestReconcileWaitsOnceForAllRuntimes(t *testing.T) {
	requests, out, err := reconcileMany(t.Context(), t, manyRuntimes+1, 100*time.Millisecond)
	if err == nil || err.Error() != "30 of 30 runtimes failed" || requests != manyRuntimes ||
		strings.Count(out, ": the publisher did not reconcile the runtime within 100ms: ") != manyRuntimes {
		t.Errorf("got %d requests, %v and\n%s", requests, err, out)
	}
}

func TestReconcileStopsWhenTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, out, err := reconcileMany(ctx, t, manyRuntimes+1, time.Hour)
	const want = "interrupted: 0 of 30 runtimes done, 0 failed, 30 not done: context deadline exceeded"
	if err == nil || err.Error() != want {
		t.Errorf("got %v and\n%s", err, out)
	}
}
