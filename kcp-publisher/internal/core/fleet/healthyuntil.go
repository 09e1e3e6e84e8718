package fleet

import (
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// HealthyUntil returns the time until which a runtime counts as healthy if its Kyma does not change. It returns zero if
// the runtime is not healthy now.
func HealthyUntil(kyma *v1beta2.Kyma, now time.Time) time.Time {
	if r := kyma.Status.Runtime; r == nil || r.ID != plan.RuntimeID(kyma) || kyma.Status.State != v1beta2.StateReady ||
		!kyma.DeletionTimestamp.IsZero() {
		return time.Time{}
	}
	healthy := func(at time.Time) bool {
		r := Judge(kyma, Rollouts{}, at)
		return r.Health == Healthy && r.Cause == nil && r.Reporting
	}
	if !healthy(now) {
		return time.Time{}
	}
	changes := healthChangeTimes(kyma)
	slices.SortFunc(changes, time.Time.Compare)
	for _, at := range changes {
		if !at.Before(now) && !healthy(at.Add(time.Second)) {
			return at
		}
	}
	return time.Time{} // cannot happen: without a new report, every runtime becomes silent
}

// healthChangeTimes returns the times at which a runtime's health can change although its Kyma does not change.
func healthChangeTimes(kyma *v1beta2.Kyma) []time.Time {
	changes := []time.Time{plan.LastReportTime(kyma).Add(recordInterval)}
	if published := kyma.Status.Runtime.Published; published != nil {
		changes = append(changes, published.Time.Add(applyTimeout))
		if c := published.Certificate; c != nil {
			changes = append(changes, c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore.Time)/certificateShare),
				c.NotAfter.Time)
		}
	}
	return changes
}
