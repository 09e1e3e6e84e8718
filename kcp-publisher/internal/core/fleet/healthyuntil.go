package fleet

import (
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// HealthyUntil returns until when Judge calls a runtime healthy and names no cause, if its Kyma does not change before
// and no rollout keeps a version from it; the zero time where it does not even now.
func HealthyUntil(kyma *v1beta2.Kyma, now time.Time) time.Time {
	if r := kyma.Status.Runtime; r == nil || r.ID != plan.RuntimeID(kyma) || kyma.Status.State != v1beta2.StateReady || !kyma.DeletionTimestamp.IsZero() {
		return time.Time{}
	}
	healthy := func(at time.Time) bool {
		r := Judge(kyma, Rollouts{}, at)
		return r.Health == Healthy && r.Cause == nil && r.Reporting
	}
	if !healthy(now) {
		return time.Time{}
	}
	turns := turnsOf(kyma)
	slices.SortFunc(turns, time.Time.Compare)
	for _, at := range turns {
		if !at.Before(now) && !healthy(at.Add(time.Second)) {
			return at
		}
	}
	return time.Time{} // a runtime that reports has to be noted again at some time
}

// turnsOf returns when the verdict on a runtime may turn although nothing changes.
func turnsOf(kyma *v1beta2.Kyma) []time.Time {
	turns := []time.Time{plan.Heard(kyma).Add(notedWithin)}
	if published := kyma.Status.Runtime.Published; published != nil {
		turns = append(turns, published.Time.Add(takenWithin))
		if c := published.Certificate; c != nil {
			turns = append(turns, c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore.Time)/certificateShare), c.NotAfter.Time)
		}
	}
	return turns
}
