package control

import (
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/rollout"
)

// Foresee gives what a fleet would be resolved by: what each Kyma asks for, with what rollouts let it have, and the next look at the
// rollouts. It reads nothing but its arguments and changes nothing.
func (k *Kymas) Foresee(kymas []v1beta2.Kyma, snapshot *catalog.Snapshot, policies []fleet.RolloutPolicy, rollouts []fleet.Rollout, now time.Time) (func(*v1beta2.Kyma) (resolve.Request, error), rollout.Round) {
	round := rollout.Look(policies, rollouts, followers(census(kymas, snapshot, k.ClusterUID)), now)
	view := &View{catalog: snapshot, gates: round.Gates}
	return func(kyma *v1beta2.Kyma) (resolve.Request, error) {
		request, err := k.Request(kyma)
		request.Gates = view.decisions(RuntimeID(kyma), request, kyma.Status.Runtime)
		return request, err
	}, round
}
