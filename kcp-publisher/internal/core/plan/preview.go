package plan

import (
	"slices"
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
		members[i].Kyma = withExpectedRemovals(members[i].Kyma, f.Catalog)
		if IsReporting(members[i].Kyma) {
			members[i].LastReport.KnownAt = now
		}
	}
	round := rollout.EvaluateAll(f.Policies, f.Rollouts, Tracks(members, nil), now)
	return &Preview{
		rules: r, owners: NewOwners(f.Kymas), Round: round,
		view: View{Catalog: f.Catalog, Gates: round.Gates, Policies: f.Policies},
	}
}

// Request returns a Kyma's module request. Each module has the version that rollouts allow in the runtime.
func (p *Preview) Request(kyma *v1beta2.Kyma) (resolve.Request, error) {
	if err := p.owners.Check(kyma); err != nil {
		return resolve.Request{}, err
	}
	return p.view.Request(p.rules, withExpectedRemovals(kyma, p.view.Catalog), nil)
}

// withExpectedRemovals returns the Kyma as it is after the publisher has allowed all removals that the catalog causes.
func withExpectedRemovals(kyma *v1beta2.Kyma, snapshot *catalog.Snapshot) *v1beta2.Kyma {
	var expected []v1beta2.ModuleRemoval
	for _, module := range PendingRemovals(kyma, snapshot) {
		if d := FindRemovalDecision(kyma, module); module != "" && (d == nil || d.Published) {
			expected = append(expected, v1beta2.ModuleRemoval{Module: module, Decision: v1beta2.RemovalAllowed})
		}
	}
	if len(expected) == 0 {
		return kyma
	}
	next := kyma.DeepCopy()
	removals := &next.Status.Runtime.Removals
	*removals = slices.DeleteFunc(*removals, func(d v1beta2.ModuleRemoval) bool {
		return slices.ContainsFunc(expected, func(e v1beta2.ModuleRemoval) bool { return e.Module == d.Module })
	})
	*removals = append(*removals, expected...)
	return next
}
