package bundle

import (
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// CheckVersions refuses a bundle that brings a module in an older version than the runtime has, unless its statement
// says so. A publisher that was misled, or that lost its memory, must not take a fleet back to versions with known
// faults. The error is a *Refusal.
func (t Trust) CheckVersions(b Bundle) error {
	for _, m := range b.State.Manifests {
		has := t.Installed[m.Module]
		if !Older(m.Version, has) || b.Statement.Predicate.GoesBack(m.Module, has, m.Version) {
			continue
		}
		return refusal.New(refusal.Downgrade, "module %s: the runtime has version %s, the bundle brings %s and its statement does not name that rollback: roll back with `kcp-publisher rollout undo`, or remove the module first",
			m.Module, has, m.Version)
	}
	return nil
}
