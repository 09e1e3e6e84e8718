package objects

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// settled records which objects match the bundle, so that they are compared again only after they or the bundle change.
// A forgotten object is compared once more.
type settled struct {
	// wanted are the compared Manifests and catalog. They are immutable, and referenced here so that their memory is not
	// reused.
	manifests []bundle.Manifest
	catalog   bundle.Catalog
	settings  string
	values    bundle.Values
	versions  map[string]string // by kind and name
}

// begin drops all records if a bundle has other content than the last compared one.
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

// is reports whether an object is unchanged since it was compared.
func (s *settled) is(kind string, o client.Object) bool {
	return s.versions[kind+"/"+o.GetName()] == versionOf(o)
}

// note records a matching object.
func (s *settled) note(kind string, o client.Object) {
	if s.versions != nil {
		s.versions[kind+"/"+o.GetName()] = versionOf(o)
	}
}
