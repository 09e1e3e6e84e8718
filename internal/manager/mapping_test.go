package manager

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// growing is a RESTMapper that counts requests. Tests can add kinds to it.
type growing struct {
	*meta.DefaultRESTMapper
	requests int
}

func (g *growing) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	g.requests++
	return g.DefaultRESTMapper.RESTMapping(kind, versions...)
}

func TestRESTMapperCachesOnlyKnownKinds(t *testing.T) {
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	kind := version.WithKind("Thing")
	below := &growing{DefaultRESTMapper: meta.NewDefaultRESTMapper([]schema.GroupVersion{version})}
	m := &mapper{RESTMapper: below}
	for range 2 {
		if _, err := m.RESTMapping(kind.GroupKind(), kind.Version); !meta.IsNoMatchError(err) {
			t.Fatalf("unknown kind: got error %v, want NoMatch", err)
		}
	}
	below.Add(kind, meta.RESTScopeNamespace) // as if its CRD had been installed
	for range 3 {
		mapping, err := m.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil || mapping.Scope != meta.RESTScopeNamespace {
			t.Fatalf("got mapping %+v, error %v, want namespace scope", mapping, err)
		}
	}
	if _, err := m.RESTMapping(kind.GroupKind(), "v2"); err == nil {
		t.Error("unknown version: got a mapping, want an error")
	}
	if below.requests != 4 {
		t.Errorf("got %d requests, want two for the unknown kind and one per version", below.requests)
	}
}
