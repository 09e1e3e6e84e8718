package bundle

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// CheckVersions refuses a bundle that downgrades a module, unless the bundle's statement allows this rollback.
// Otherwise, a publisher that was deceived or lost its data could return a fleet to versions with known faults. A
// runtime with autonomy accepts a bundle with an older version if the bundle also offers the installed version. It then
// keeps the installed version. The error is a *refusal.Error.
func (t Trust) CheckVersions(b Bundle) error {
	for _, m := range b.State.Manifests {
		has := t.Installed[m.Module]
		if !IsOlder(m.Version, has) || b.Statement.Predicate.AllowsRollback(m.Module, has, m.Version) ||
			b.IsAutonomous() && b.Offer(m.Module, has) != nil {
			continue
		}
		return refusal.New(refusal.Downgrade,
			"module %s: the runtime has version %s, but the bundle contains %s and does not list a rollback: roll "+
				"back with `kcp-publisher rollout undo`, or remove the module first",
			m.Module, has, m.Version)
	}
	return nil
}

// IsAutonomous reports whether the runtime can choose modules from the bundle's Offers. A runtime cannot choose while
// it is being deleted or taken over from another product. During a takeover, the Offers contain neither inherited
// objects nor installed versions.
func (b Bundle) IsAutonomous() bool {
	return b.State.Settings.Autonomy == AutonomyCatalog && !b.Statement.Predicate.Deleting && b.State.Takeover == ""
}

// Offer returns the bundle's offer for the given module version, or nil if the bundle does not contain it.
func (b Bundle) Offer(module, version string) *Manifest {
	i := slices.IndexFunc(b.State.Offers, func(m Manifest) bool { return m.Module == module && m.Version == version })
	if i < 0 {
		return nil
	}
	return &b.State.Offers[i]
}
