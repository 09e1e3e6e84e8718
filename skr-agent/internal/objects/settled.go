package objects

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// settled remembers which objects were found to be as the bundle says, so that they are compared again only when they
// changed, or what is wanted. What it forgets is compared once more.
type settled struct {
	// wanted are the Manifests and catalog that were compared. They are never changed, and held here, so that others are
	// others in memory too.
	manifests []bundle.Manifest
	catalog   bundle.Catalog
	settings  string
	values    bundle.Values
	versions  map[string]string // by kind and name
}

// begin forgets everything when a bundle wants something else than what was compared last.
func (s *settled) begin(b *bundle.Bundle) {
	if settings := imageRules(b.State.Settings); s.versions == nil || settings != s.settings ||
		!maps.Equal(b.Statement.Predicate.Values, s.values) ||
		!same(s.manifests, b.State.Manifests) || !same(s.catalog.ModuleTemplates, b.Modules.ModuleTemplates) ||
		!same(s.catalog.ModuleReleaseMetas, b.Modules.ModuleReleaseMetas) {
		*s = settled{b.State.Manifests, b.Modules, settings, b.Statement.Predicate.Values, map[string]string{}}
	}
}

// same reports whether both are one list in memory.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func versionOf(o client.Object) string { return string(o.GetUID()) + " " + o.GetResourceVersion() }

// is reports whether an object is as it was when it was compared.
func (s *settled) is(kind string, o client.Object) bool {
	return s.versions[kind+"/"+o.GetName()] == versionOf(o)
}

// note remembers an object that is as it should be.
func (s *settled) note(kind string, o client.Object) {
	if s.versions != nil {
		s.versions[kind+"/"+o.GetName()] = versionOf(o)
	}
}
