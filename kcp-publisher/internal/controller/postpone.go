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

// mayPostpone reports whether a Kyma can be reconciled without its report after a start: its status shows that nothing
// is awaited from the runtime and nothing is wrong, and nothing changed since this process began. Its bundle is adopted
// at once; its report is read when a poll would be due. A process that starts therefore asks the registry for one thing
// of each runtime, not for two of all runtimes at once.
func (k *Kymas) mayPostpone(before, kyma *v1beta2.Kyma, facts ingest.Facts, this fleetstate.Basis) bool {
	switch {
	case !plan.Resting(kyma), plan.Requested(kyma) != "", this.View.Awaits(plan.RuntimeID(kyma)), facts.Carried:
		return false
	case kyma.Status.ObservedGeneration != kyma.Generation, this.Own != 0, !equality.Semantic.DeepEqual(before.Status, kyma.Status):
		return false
	}
	if k.Now().Sub(plan.Heard(kyma)) > plan.MaxUnnoted {
		return false // nobody noted it for so long that it may be silent
	}
	for _, c := range kyma.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			return false
		}
	}
	return true
}

// firstPoll returns when a report is asked for first that nobody waits for: not all of a fleet's at once.
func (k *Kymas) firstPoll(kyma *v1beta2.Kyma) time.Time {
	return k.Now().Add(rand.N(max(1, min(k.pollOf(kyma), restingPoll))))
}

// postpone returns until when the first report of a Kyma's runtime is not asked for: until the given time, or what was
// noted before. It is the past where it was asked for, or somebody said that there is one.
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
