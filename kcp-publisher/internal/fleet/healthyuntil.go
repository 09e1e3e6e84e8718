package fleet

import (
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/plan"
)

// HealthyUntil returns until when Judge calls a runtime healthy and names no cause, if its Kyma does not change before and no rollout keeps a version
// from it; the zero time where it does not even now.
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

// Row is what a table of Kymas says of one, as text; a cell is empty where the Kyma has nothing of the kind.
type Row struct {
	Namespace, Name string
	// Runtime, State and HealthyUntil are of the status.
	Runtime, State, HealthyUntil string
	// Skip is the label that suspends a runtime, Deleted says that the Kyma is being deleted.
	Skip, Deleted string
}

// Healthy returns the runtime of a row and reports whether it is healthy: whether the publisher says so for now and nobody has suspended or deleted
// it since. Of any other one nothing is known before its Kyma is read in full.
func (r Row) Healthy(now time.Time) (Runtime, bool) {
	until, err := time.Parse(time.RFC3339, r.HealthyUntil)
	if err != nil || !now.Before(until) || r.State != string(v1beta2.StateReady) || r.Runtime == "" || r.Skip != "" || r.Deleted != "" {
		return Runtime{}, false
	}
	return Runtime{ID: line(r.Runtime), Namespace: r.Namespace, Kyma: r.Name, State: v1beta2.StateReady, Health: Healthy, Reporting: true}, true
}
