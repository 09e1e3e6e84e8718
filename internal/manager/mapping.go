package manager

import (
	"net/http"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// mapper is a RESTMapper that caches mappings. A cache that is restricted to some namespaces checks at each read
// whether a kind is namespaced, and controller-runtime's mapper searches all groups for the kind. A cached mapping
// stays valid, because the scope and resource of a kind do not change while it exists. Unknown kinds are not cached.
// mapper is safe for concurrent use.
type mapper struct {
	meta.RESTMapper
	known sync.Map // *meta.RESTMapping by mappingKey
}

// mappingKey identifies a request for a mapping.
type mappingKey struct {
	schema.GroupKind
	versions string
}

// newMapper is the MapperProvider of managers.
func newMapper(config *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	dynamic, err := apiutil.NewDynamicRESTMapper(config, client)
	if err != nil {
		return nil, err
	}
	return &mapper{RESTMapper: dynamic}, nil
}

// RESTMapping returns the mapping of a kind.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	key := mappingKey{kind, strings.Join(versions, ",")}
	if known, ok := m.known.Load(key); ok {
		return known.(*meta.RESTMapping), nil
	}
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err == nil {
		m.known.Store(key, mapping)
	}
	return mapping, err
}
