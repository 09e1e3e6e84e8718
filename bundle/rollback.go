package bundle

import (
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// CheckVersions refuses a bundle that downgrades a module, unless the bundle's statement lists this rollback. A
// publisher that was deceived or lost its data must not return a fleet to versions with known faults. The error is a
// *refusal.Error.
func (t Trust) CheckVersions(b Bundle) error {
	for _, m := range b.State.Manifests {
		has := t.Installed[m.Module]
		if !Older(m.Version, has) || b.Statement.Predicate.AllowsRollback(m.Module, has, m.Version) {
			continue
		}
		return refusal.New(refusal.Downgrade,
			"module %s: the runtime has version %s, but the bundle contains %s without naming the rollback: roll "+
				"back with `kcp-publisher rollout undo`, or remove the module first",
			m.Module, has, m.Version)
	}
	return nil
}
