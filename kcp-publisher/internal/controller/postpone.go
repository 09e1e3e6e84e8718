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

// mayPostpone reports whether the first pass of a Kyma in this process can skip reading the report. A restart then
// makes one request per idle runtime instead of two.
func (k *Kymas) mayPostpone(before, kyma *v1beta2.Kyma, facts ingest.Facts, this fleetstate.Basis) bool {
	switch {
	case !plan.Resting(kyma), plan.Requested(kyma) != "", this.View.Awaits(plan.RuntimeID(kyma)), facts.Carried:
		return false
	case kyma.Status.ObservedGeneration != kyma.Generation, this.Own != 0,
		!equality.Semantic.DeepEqual(before.Status, kyma.Status):
		return false
	}
	if k.Now().Sub(plan.LastReportTime(kyma)) > plan.MaxUnrecorded {
		return false // the runtime may be silent
	}
	for _, c := range kyma.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			return false
		}
	}
	return true
}

// The times are random, so that a new process does not read the reports of the whole fleet at once.
func (k *Kymas) firstPoll(kyma *v1beta2.Kyma) time.Time {
	return k.Now().Add(rand.N(max(1, min(k.pollOf(kyma), restingPoll))))
}

// postpone returns the recorded time of the first read of a runtime's report, and otherwise records the proposed time.
// It returns zero if the report was already read or a notification arrived.
func (r *reports) postpone(kyma *v1beta2.Kyma, proposed time.Time) time.Time {
	known := r.remembered(kyma)
	if !known.Asked.IsZero() || r.fleet.Of(kyma).Notified != 0 {
		return time.Time{}
	}
	if known.Postponed.IsZero() {
		known.Postponed = proposed
		r.remember(kyma, known)
	}
	return known.Postponed
}
