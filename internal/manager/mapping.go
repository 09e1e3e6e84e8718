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

// mapper is a RESTMapper that caches mappings. Without it, each read from a controller-runtime cache that is restricted
// to some namespaces would search all API groups for the mapping of the kind. A cached mapping stays valid, because the
// scope and resource of a kind do not change while it exists. Unknown kinds are not cached. mapper is safe for
// concurrent use.
type mapper struct {
	meta.RESTMapper
	known sync.Map // *meta.RESTMapping by mappingKey
}

// mappingKey identifies a cached mapping by the arguments of RESTMapping.
type mappingKey struct {
	schema.GroupKind
	versions string
}

// newMapper returns a mapper. It is the MapperProvider in the manager's options.
func newMapper(config *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	dynamic, err := apiutil.NewDynamicRESTMapper(config, client)
	if err != nil {
		return nil, err
	}
	return &mapper{RESTMapper: dynamic}, nil
}

// RESTMapping returns the mapping of a kind from the cache, or discovers and caches it.
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
