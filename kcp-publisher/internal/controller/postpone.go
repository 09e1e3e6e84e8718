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

// mayPostpone reports whether the first pass of a Kyma after the start of the process can skip reading the report. The
// status must show an idle runtime without problems, and the Kyma must be unchanged since the process started. The pass
// then only checks the bundle, and the next poll reads the report. A new process therefore makes one request per
// runtime instead of two.
func (k *Kymas) mayPostpone(before, kyma *v1beta2.Kyma, facts ingest.Facts, this fleetstate.Basis) bool {
	switch {
	case !plan.Resting(kyma), plan.Requested(kyma) != "", this.View.Awaits(plan.RuntimeID(kyma)), facts.Carried:
		return false
	case kyma.Status.ObservedGeneration != kyma.Generation, this.Own != 0,
		!equality.Semantic.DeepEqual(before.Status, kyma.Status):
		return false
	}
	if k.Now().Sub(plan.LastReportTime(kyma)) > plan.MaxUnrecorded {
		return false // the last recorded report is so old that the runtime may be silent
	}
	for _, c := range kyma.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			return false
		}
	}
	return true
}

// firstPoll returns the time of the first read of an idle runtime's report. The times are random, so a new process does
// not read the reports of the whole fleet at once.
func (k *Kymas) firstPoll(kyma *v1beta2.Kyma) time.Time {
	return k.Now().Add(rand.N(max(1, min(k.pollOf(kyma), restingPoll))))
}

// postpone returns when to read a runtime's report for the first time: the recorded time. If no time is recorded, it
// records and returns the proposed time. It returns the zero time if the report was already read or a notification
// arrived.
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
