package install

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
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
