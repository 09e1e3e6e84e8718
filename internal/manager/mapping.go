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

// mapper is a RESTMapper that remembers mappings. A cache of some namespaces asks at each read whether a kind is
// namespaced, and the mapper of controller-runtime goes through all groups for the answer. A kind keeps its scope and
// resource for as long as it exists, so that an answer stays right; what is not known is asked again each time. It is
// safe for concurrent use.
type mapper struct {
	meta.RESTMapper
	known sync.Map // *meta.RESTMapping by mapped
}

// mapped is what is asked for.
type mapped struct {
	schema.GroupKind
	versions string
}

// newMapper is a provider of mappers, as managers take it.
func newMapper(config *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	dynamic, err := apiutil.NewDynamicRESTMapper(config, client)
	if err != nil {
		return nil, err
	}
	return &mapper{RESTMapper: dynamic}, nil
}

// RESTMapping returns the mapping of a kind.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	asked := mapped{kind, strings.Join(versions, ",")}
	if known, is := m.known.Load(asked); is {
		return known.(*meta.RESTMapping), nil
	}
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err == nil {
		m.known.Store(asked, mapping)
	}
	return mapping, err
}
