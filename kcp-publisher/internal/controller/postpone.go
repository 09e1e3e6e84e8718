package controller

import (
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// mayPostpone reports whether a Kyma can be reconciled without its report after a start. Its status must show an idle
// runtime without problems, and nothing may have changed since the process started. Its bundle is adopted at once, and
// its report is read at the next poll. A new process therefore makes one request for each runtime, not two for all at
// once.
func (k *Kymas) mayPostpone(before, kyma *v1beta2.Kyma, facts ingest.Facts, this fleetstate.Basis) bool {
	switch {
	case !plan.Resting(kyma), plan.Requested(kyma) != "", this.View.Awaits(plan.RuntimeID(kyma)), facts.Carried:
		return false
	case kyma.Status.ObservedGeneration != kyma.Generation, this.Own != 0,
		!equality.Semantic.DeepEqual(before.Status, kyma.Status):
		return false
	}
	if k.Now().Sub(plan.LastReportTime(kyma)) > plan.MaxUnnoted {
		return false // it was not recorded for so long that it may be silent
	}
	for _, c := range kyma.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			return false
		}
	}
	return true
}

// firstPoll returns the time of the first read of an idle runtime's report. These times are spread over the fleet.
func (k *Kymas) firstPoll(kyma *v1beta2.Kyma) time.Time {
	return k.Now().Add(rand.N(max(1, min(k.pollOf(kyma), restingPoll))))
}

// postpone returns when the first report of a Kyma's runtime is read: at the given time, or at the recorded one. It
// returns a past time if the report was read already or a notification arrived.
func (r *reports) postpone(kyma *v1beta2.Kyma, until time.Time) time.Time {
	known := r.remembered(kyma)
	if !known.Asked.IsZero() || r.fleet.Of(kyma).Notified != 0 {
		return time.Time{}
	}
	if known.Postponed.IsZero() {
		known.Postponed = until
		r.remember(kyma, known)
	}
	return known.Postponed
}
