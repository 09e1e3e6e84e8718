package plan

import (
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// Fleet contains the objects of a control plane.
type Fleet struct {
	Kymas    []v1beta2.Kyma
	Catalog  *catalog.Snapshot
	Policies []fleet.RolloutPolicy
	Rollouts []fleet.Rollout
}

// Preview resolves the requests of a fleet without publishing bundles.
type Preview struct {
	rules  Rules
	owners Owners
	view   View
	// Round contains the next step of each rollout.
	Round rollout.Round
}

// Preview returns a Preview after the next step of the fleet's rollouts.
func (r Rules) Preview(f Fleet, now time.Time) *Preview {
	members := Members(f.Kymas, f.Catalog)
	for i := range members {
		if Reports(members[i].Kyma) {
			members[i].LastReport.At = now
		}
	}
	round := rollout.NextRound(f.Policies, f.Rollouts, Tracks(members, nil), now)
	return &Preview{
		rules: r, owners: NewOwners(f.Kymas), view: View{Catalog: f.Catalog, Gates: round.Gates}, Round: round,
	}
}

// Request returns the request of a Kyma's runtime, with the versions that rollouts allow.
func (p *Preview) Request(kyma *v1beta2.Kyma) (resolve.Request, error) {
	if err := p.owners.Check(kyma); err != nil {
		return resolve.Request{}, err
	}
	request, err := p.rules.Request(kyma, nil)
	p.view.Decide(RuntimeID(kyma), &request, kyma.Status.Runtime)
	return request, err
}
