package manager

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// growing is a mapper that learns of a kind, and counts how often it is asked.
type growing struct {
	*meta.DefaultRESTMapper
	asked int
}

func (g *growing) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	g.asked++
	return g.DefaultRESTMapper.RESTMapping(kind, versions...)
}

func TestAMappingIsAskedForUntilItIsKnown(t *testing.T) {
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	kind := version.WithKind("Thing")
	below := &growing{DefaultRESTMapper: meta.NewDefaultRESTMapper([]schema.GroupVersion{version})}
	m := &mapper{RESTMapper: below}
	for range 2 {
		if _, err := m.RESTMapping(kind.GroupKind(), kind.Version); !meta.IsNoMatchError(err) {
			t.Fatalf("a kind that does not exist: %v", err)
		}
	}
	below.Add(kind, meta.RESTScopeNamespace) // its CRD is installed
	for range 3 {
		mapping, err := m.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil || mapping.Scope != meta.RESTScopeNamespace {
			t.Fatalf("got %+v, %v", mapping, err)
		}
	}
	if _, err := m.RESTMapping(kind.GroupKind(), "v2"); err == nil {
		t.Error("another version has the mapping of the first")
	}
	if below.asked != 4 {
		t.Errorf("it was asked %d times, want twice for what is unknown, and once for each version", below.asked)
	}
}
