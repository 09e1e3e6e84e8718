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

// mapper is a RESTMapper that caches the mappings for known kinds. Otherwise, controller-runtime would search all API
// groups for many reads. A cached mapping stays valid, because a kind's scope and resource do not change.
//
// mapper is safe for concurrent use.
type mapper struct {
	meta.RESTMapper
	known sync.Map // *meta.RESTMapping by mappingKey
}

type mappingKey struct {
	schema.GroupKind
	versions string
}

// newMapper returns a caching mapper for the manager's options.
func newMapper(config *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	dynamic, err := apiutil.NewDynamicRESTMapper(config, client)
	if err != nil {
		return nil, err
	}
	return &mapper{RESTMapper: dynamic}, nil
}

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
