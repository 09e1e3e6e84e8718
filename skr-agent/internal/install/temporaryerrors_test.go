package install

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

func TestTemporaryErrorIsRecordedAfterAMinute(t *testing.T) {
	gr := schema.GroupResource{Resource: "things"}
	start := time.Unix(1e9, 0)
	at := func(generation int64) *v1beta2.Manifest {
		m := &v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		m.Status.Conditions = []metav1.Condition{{Type: v1beta2.ConditionReady, ObservedGeneration: generation}}
		return m
	}
	for name, err := range map[string]error{
		"status 503": apierrors.NewServiceUnavailable("unable to handle the request"),
		"status 429": apierrors.NewTooManyRequests("slow down", 1),
		"status 504": apierrors.NewTimeoutError("timed out", 1),
		"deadline":   context.DeadlineExceeded,
		"conflict":   apierrors.NewConflict(gr, "a", errors.New("changed")),
	} {
		t.Run(name, func(t *testing.T) {
			known := &memo{}
			require.False(t, known.mustRecordRetry(at(2), err, start))
			require.False(t, known.mustRecordRetry(at(2), err, start.Add(59*time.Second)))
			require.True(t, known.mustRecordRetry(at(2), err, start.Add(time.Minute)))
			known.failingSince = time.Time{} // as after a successful reconciliation
			require.False(t, known.mustRecordRetry(at(2), err, start.Add(2*time.Minute)))
		})
	}
	require.True(t, (&memo{}).mustRecordRetry(at(1), context.DeadlineExceeded, start),
		"the status for an older generation is replaced immediately")
	require.True(t, (&memo{}).mustRecordRetry(at(2), errors.New("other"), start))
}

// New image rules change an annotation, but not the Manifest's generation.
func TestNewImageRulesAreAppliedAfterTemporaryError(t *testing.T) {
	w := newWorld(t)
	var fails atomic.Bool
	w.halt()
	w.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && r.URL.Query().Has("dryRun") && fails.CompareAndSwap(true, false) {
				return nil, syscall.ECONNRESET
			}
			return next.RoundTrip(r)
		})
	})
	w.start()
	applies := func(mirror string) {
		t.Helper()
		rules := `{"mirrors":{"example.org":"` + mirror + `"}}`
		w.wants("mirrored", crowd(0, 1, "example.org/one"), func(m *v1beta2.Manifest) {
			m.Annotations[v1beta2.AnnotationImages] = rules
		})
		w.eventually("the image rules are applied", func() bool {
			applied := record.ReadUnverified(w.manifest("mirrored")).Applied
			return applied != nil && applied.Images == rules
		})
		live := &appsv1.Deployment{}
		require.True(t, w.exists(live, home, "crowd-0"))
		require.Equal(t, mirror+"/one", live.Spec.Template.Spec.Containers[0].Image)
	}
	applies("a.example.org")
	w.becomesReady("mirrored", "crowd-0")
	fails.Store(true)
	applies("b.example.org")
	require.False(t, fails.Load())

	t.Log("a change of image rules is not drift")
	var counted dto.Metric
	require.NoError(t, driftCorrected.WithLabelValues("mirrored", "Deployment").Write(&counted))
	require.Zero(t, counted.GetCounter().GetValue())
}

// The test changes the Manifest between the agent's read and its first write.
func TestChangeDuringAnApplyIsAppliedNext(t *testing.T) {
	w := newWorld(t)
	var changes atomic.Pointer[func()]
	w.halt()
	w.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && resourceIn(r.URL.Path) == "manifests/status" {
				if change := changes.Swap(nil); change != nil {
					(*change)()
				}
			}
			return next.RoundTrip(r)
		})
	})
	w.start()
	w.wants("quick", aConfigMap("one"), version("1.0.0"))
	w.state("quick", v1beta2.StateReady, "")
	change := func() { w.wants("quick", aConfigMap("three"), version("3.0.0")) }
	changes.Store(&change)
	w.wants("quick", aConfigMap("two"), version("2.0.0"))
	w.eventually("3.0.0 is applied", func() bool {
		m := w.manifest("quick")
		return m.Spec.Version == "3.0.0" && m.Status.State == v1beta2.StateReady && planning.Installed(m)
	})
	require.True(t, w.exists(&corev1.ConfigMap{}, home, "three"))
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "two"))
}
