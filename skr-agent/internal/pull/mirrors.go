package pull

import (
	"maps"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// here returns a bundle with the mirrors of this cluster.
func (p *Puller) here(b bundle.Bundle) *bundle.Bundle {
	if len(p.Mirrors) == 0 {
		return &b
	}
	own, mirrors := bundle.Settings{Mirrors: p.Mirrors}, maps.Clone(p.Mirrors)
	for from, to := range b.State.Settings.Mirrors {
		// A mirror in the bundle for a part of that location must not override it either.
		if name := bundle.OneName(from); own.Mirrored(name) == name {
			mirrors[name] = to
		}
	}
	b.State.Settings.Mirrors = mirrors
	return &b
}
