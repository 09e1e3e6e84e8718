package controller

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// resume takes over a Kyma at rest from the process before. Its bundle is adopted at once, as ever; its report is read when a poll of it would be due.
// So a process that starts asks the registry for one thing of each runtime, and not for two of all runtimes at once. Rests is false where the report is
// needed now: something is to be published or told, or was noticed.
//
// Nothing follows from this look but that no bundle is due. The status stays as it is, which follows from the report that it names.
func (k *Kymas) resume(ctx context.Context, name types.NamespacedName, before, kyma *v1beta2.Kyma, rules plan.Rules, facts ingest.Facts, this fleetstate.Basis) (_ ctrl.Result, rests bool) {
	started := k.Now()
	if !k.mayResume(before, kyma, facts, this) {
		return ctrl.Result{}, false
	}
	first := k.reports.remembered(kyma).Postponed.IsZero() // then the registry is asked for the bundle
	until := k.reports.postpone(kyma, k.firstPoll(kyma))
	if !started.Before(until) {
		return ctrl.Result{}, false
	}
	pending := k.take(name)
	defer func() {
		if rests || pending {
			k.pendingAfter(name, rests)
		}
	}()
	runtime := rules.Runtime(kyma, nil)
	request, err := rules.Request(kyma, nil)
	if err != nil {
		return ctrl.Result{}, false
	}
	this.View.Decide(runtime.ID, &request, kyma.Status.Runtime)
	if rests, err = k.Publisher.Rests(ctx, k.published(kyma), runtime, request, this.View.Catalog); err != nil || !rests {
		return ctrl.Result{}, false
	}
	k.backoff.answered(ctx, name, started, first, false)
	k.count(kyma)
	return ctrl.Result{RequeueAfter: until.Sub(started), Priority: k.orderOf(kyma)}, true
}

// mayResume reports whether a Kyma's status says that nothing is awaited from its runtime and nothing is wrong, of all that it follows from, and nobody
// noticed anything since this process began.
func (k *Kymas) mayResume(before, kyma *v1beta2.Kyma, facts ingest.Facts, this fleetstate.Basis) bool {
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

// postpone returns until when the first report of a Kyma's runtime is not asked for: until the given time, or what was noted before. It is the past where
// it was asked for, or somebody said that there is one.
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
