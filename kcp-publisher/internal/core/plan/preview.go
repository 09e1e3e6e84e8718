package plan

import (
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// Fleet contains the control plane objects that Preview needs.
type Fleet struct {
	Kymas    []v1beta2.Kyma
	Catalog  *catalog.Snapshot
	Policies []fleet.RolloutPolicy
	Rollouts []fleet.Rollout
}

// Preview resolves the module requests of a fleet's Kymas without publishing bundles.
type Preview struct {
	rules  Rules
	owners Owners
	view   View
	// Round contains the next step of each rollout in the fleet.
	Round rollout.Round
}

// Preview computes the next step of all rollouts and returns a Preview that uses the resulting versions.
func (r Rules) Preview(f Fleet, now time.Time) *Preview {
	members := Members(f.Kymas, f.Catalog)
	for i := range members {
		if IsReporting(members[i].Kyma) {
			members[i].LastReport.KnownAt = now
		}
	}
	round := rollout.EvaluateAll(f.Policies, f.Rollouts, Tracks(members, nil), now)
	return &Preview{
		rules: r, owners: NewOwners(f.Kymas), view: View{Catalog: f.Catalog, Gates: round.Gates}, Round: round,
	}
}

// Request returns a Kyma's module request. Each module has the version that rollouts allow in the runtime.
func (p *Preview) Request(kyma *v1beta2.Kyma) (resolve.Request, error) {
	if err := p.owners.Check(kyma); err != nil {
		return resolve.Request{}, err
	}
	return p.view.Request(p.rules, kyma, nil)
}
