package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// poll asks which report of a Kyma's runtime is the newest, where that is all that may make an equal look find anything to do. Quiet says that it is
// the known one: the result is when to ask again. Else a whole look follows, which is told the answer, nil where none was asked for.
//
// Nearly all looks of a fleet at rest end here. The Kyma is the cache's and not changed, and nothing is made of it but this comparison.
func (k *Kymas) poll(ctx context.Context, name types.NamespacedName, kyma *v1beta2.Kyma, this fleetstate.Basis) (_ ctrl.Result, said *answer, quiet bool) {
	started := k.Now()
	if this.View == nil || plan.Requested(kyma) != "" || k.fleet.Get(name).Pending.Next {
		return ctrl.Result{}, nil, false
	}
	known := k.reports.remembered(kyma)
	this.Report = known.Content()
	settled := k.fleet.Of(kyma).Settled
	if !settled.Stands(this, started) || known.Digest == "" || k.backoff.wait(name, started) > 0 || k.checkOwner(ctx, kyma) != nil {
		return ctrl.Result{}, nil, false
	}
	answer := k.reports.ask(ctx, kyma, known, k.freshEnough(kyma, false))
	if answer.err != nil || answer.digest != known.Digest {
		return ctrl.Result{}, &answer, false
	}
	reported := !answer.at.Before(started)
	k.backoff.answered(ctx, name, started, reported, reported)
	return k.lookAgain(kyma, answer.at, settled.Until), nil, true
}

// checkOwner returns why a Kyma's runtime is another Kyma's.
func (k *Kymas) checkOwner(ctx context.Context, kyma *v1beta2.Kyma) error {
	runtime := plan.RuntimeID(kyma)
	var same v1beta2.KymaList
	if err := k.Client.List(ctx, &same, client.InNamespace(kyma.Namespace), client.MatchingFields{indexRuntime: runtime}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Kymas of runtime %s: %w", runtime, err)
	}
	return plan.NewOwners(same.Items).Check(kyma)
}
