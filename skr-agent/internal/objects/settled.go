package objects

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// settledObjects records the objects that match the bundle. The agent need not compare them again until the object or
// the bundle changes.
type settledObjects struct {
	// manifests and catalog are from the bundle that was last compared.
	manifests []bundle.Manifest
	catalog   bundle.Catalog
	settings  string
	values    bundle.Values
	versions  map[string]string // UID and resource version of each matching object; the key is KIND/NAME
}

// reset drops all records if the content of the bundle changed.
func (s *settledObjects) reset(b *bundle.Bundle) {
	if settings := imageRules(nil, b.State.Settings); s.versions == nil || settings != s.settings ||
		!maps.Equal(b.Statement.Predicate.Values, s.values) ||
		!isSameSlice(s.manifests, b.State.Manifests) || !isSameSlice(s.catalog.ModuleTemplates, b.Modules.ModuleTemplates) ||
		!isSameSlice(s.catalog.ModuleReleaseMetas, b.Modules.ModuleReleaseMetas) {
		*s = settledObjects{b.State.Manifests, b.Modules, settings, b.Statement.Predicate.Values, map[string]string{}}
	}
}

// isSameSlice reports whether a and b are the same slice in memory.
func isSameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func objectVersion(o client.Object) string { return string(o.GetUID()) + " " + o.GetResourceVersion() }

// isSettled reports whether an object matched the bundle and has not changed since then.
func (s *settledObjects) isSettled(kind string, o client.Object) bool {
	return s.versions[kind+"/"+o.GetName()] == objectVersion(o)
}

// markSettled records that an object matches the bundle, so that it is not compared again.
func (s *settledObjects) markSettled(kind string, o client.Object) {
	if s.versions != nil {
		s.versions[kind+"/"+o.GetName()] = objectVersion(o)
	}
}
