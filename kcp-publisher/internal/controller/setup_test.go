package controller

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// After an outage of the API server, each Kyma must be reconciled soon, however long the outage was.
func TestRetriesStayFrequentDuringAnOutage(t *testing.T) {
	limiter, kyma := newRetryLimiter(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "one"}}
	var last time.Duration
	for range 100 {
		last = limiter.When(kyma)
		if last > time.Minute {
			t.Fatalf("got a retry after %s, want at most 1m", last)
		}
	}
	if last < 30*time.Second {
		t.Errorf("got a retry after %s following 100 failures, want a backoff", last)
	}
	limiter.Forget(kyma)
	if first := limiter.When(kyma); first > time.Second {
		t.Errorf("after a success, got a first retry after %s", first)
	}
}
