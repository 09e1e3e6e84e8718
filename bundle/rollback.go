package bundle

import (
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// checkVersions refuses a bundle that brings a module in an older version than the runtime has, unless its statement says so. A publisher
// that was misled, or that lost its memory, must not take a fleet back to versions with known faults.
func checkVersions(p Predicate, state DesiredState, installed map[string]string) error {
	back := make(map[string]Rollback, len(p.Rollback))
	for _, r := range p.Rollback {
		back[r.Module] = r
	}
	for _, m := range state.Manifests {
		has := installed[m.Module]
		if !Older(m.Version, has) {
			continue
		}
		if r, said := back[m.Module]; said && r.To == m.Version && !Older(r.From, has) {
			continue
		}
		return refusal.New(refusal.Downgrade, "module %s: the runtime has version %s, the bundle brings %s and its statement does not name that rollback: roll back with `kcp-publisher rollout undo`, or remove the module first",
			m.Module, has, m.Version)
	}
	return nil
}
