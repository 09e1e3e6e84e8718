package pull

import (
	"maps"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// withClusterMirrors returns a copy of a bundle in which this cluster's mirrors override the mirrors in the bundle's
// settings.
func (p *Puller) withClusterMirrors(b bundle.Bundle) *bundle.Bundle {
	if len(p.Mirrors) == 0 {
		return &b
	}
	own, mirrors := bundle.Settings{Mirrors: p.Mirrors}, maps.Clone(p.Mirrors)
	for from, to := range b.State.Settings.Mirrors {
		// Omit the bundle's mirrors for parts of a registry that this cluster mirrors.
		if name := bundle.CanonicalRegistry(from); own.MirroredName(name) == name {
			mirrors[name] = to
		}
	}
	b.State.Settings.Mirrors = mirrors
	return &b
}
