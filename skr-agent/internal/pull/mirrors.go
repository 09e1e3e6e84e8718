package pull

import (
	"maps"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// here is a bundle as it is followed in this cluster, with the mirrors that only this cluster knows of.
func (p *Puller) here(b bundle.Bundle) *bundle.Bundle {
	if len(p.Mirrors) == 0 {
		return &b
	}
	own, mirrors := bundle.Settings{Mirrors: p.Mirrors}, maps.Clone(p.Mirrors)
	for from, to := range b.State.Settings.Mirrors {
		// Nor may one of a part of what is mirrored here lead away from it.
		if name := bundle.OneName(from); own.Mirrored(name) == name {
			mirrors[name] = to
		}
	}
	b.State.Settings.Mirrors = mirrors
	return &b
}
