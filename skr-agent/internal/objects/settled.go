package objects

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// settled records the objects that match the bundle. The agent need not compare them again until the object or the
// bundle changes.
type settled struct {
	// manifests and catalog are from the bundle that was last compared.
	manifests []bundle.Manifest
	catalog   bundle.Catalog
	settings  string
	values    bundle.Values
	versions  map[string]string // UID and resource version of each matching object; the key is KIND/NAME
}

// begin drops all records if the content of the bundle changed.
func (s *settled) begin(b *bundle.Bundle) {
	if settings := imageRules(nil, b.State.Settings); s.versions == nil || settings != s.settings ||
		!maps.Equal(b.Statement.Predicate.Values, s.values) ||
		!same(s.manifests, b.State.Manifests) || !same(s.catalog.ModuleTemplates, b.Modules.ModuleTemplates) ||
		!same(s.catalog.ModuleReleaseMetas, b.Modules.ModuleReleaseMetas) {
		*s = settled{b.State.Manifests, b.Modules, settings, b.Statement.Predicate.Values, map[string]string{}}
	}
}

// same reports whether a and b are the same slice in memory.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func versionOf(o client.Object) string { return string(o.GetUID()) + " " + o.GetResourceVersion() }

// is reports whether an object matched the bundle and has not changed since then.
func (s *settled) is(kind string, o client.Object) bool {
	return s.versions[kind+"/"+o.GetName()] == versionOf(o)
}

// note records that an object matches the bundle, so that it is not compared again.
func (s *settled) note(kind string, o client.Object) {
	if s.versions != nil {
		s.versions[kind+"/"+o.GetName()] = versionOf(o)
	}
}
