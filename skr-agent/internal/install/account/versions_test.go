package account

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content"
)

// changing is a client whose first reads return the given errors. It records the API version of each read.
type changing struct {
	client.Client
	errors []error
	read   []string
}

func (c *changing) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	c.read = append(c.read, o.GetObjectKind().GroupVersionKind().Version)
	if len(c.read) > len(c.errors) {
		return nil
	}
	return c.errors[len(c.read)-1]
}

// discoveryOf returns a client for a server that lists kind Thing in example.org/v2 and v1 with the given verbs.
func discoveryOf(t *testing.T, verbs string) discovery.DiscoveryInterface {
	t.Helper()
	resources := `"resources": [{"name": "things", "kind": "Thing", "namespaced": true, "verbs": ` + verbs + `}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text := map[string]string{
			"/api": `{"kind": "APIVersions", "versions": []}`,
			"/apis": `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "example.org",
				"versions": [{"groupVersion": "example.org/v2", "version": "v2"},
					{"groupVersion": "example.org/v1", "version": "v1"}]}]}`,
			"/apis/example.org/v2": `{"kind": "APIResourceList", "groupVersion": "example.org/v2", ` + resources,
			"/apis/example.org/v1": `{"kind": "APIResourceList", "groupVersion": "example.org/v1", ` + resources,
		}[r.URL.Path]
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	return discovery.NewDiscoveryClientForConfigOrDie(&rest.Config{Host: server.URL})
}

// The API server begins to serve a version between the read and the discovery. An object that the agent could not read
// must not count as missing, because the agent would then forget it.
func TestObjectOfNewlyServedVersionDoesNotCountAsMissing(t *testing.T) {
	r := v1beta2.Resource{
		GroupVersionKind: metav1.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Thing"},
		Namespace:        "default", Name: "a",
	}
	unserved := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "", 0, true)
	unconverted := apierrors.NewInternalError(errors.New("conversion failed"))
	stored := `["get", "list"]`
	for name, c := range map[string]struct {
		errors []error
		verbs  string
		found  bool
		want   error
		read   []string
	}{
		"other version is served":        {[]error{unserved}, stored, true, nil, []string{"v1", "v2"}},
		"version is served at the retry": {[]error{unserved, unserved}, stored, true, nil, []string{"v1", "v2", "v1"}},
		"other version is not converted": {
			[]error{unserved, unconverted}, stored, true, nil, []string{"v1", "v2", "v1"},
		},
		"failed conversion has no retry": {
			[]error{unconverted, unconverted}, stored, false, unconverted, []string{"v1", "v2"},
		},
		"versions are not served yet": {
			[]error{unserved, unserved, unserved}, stored, false, content.ErrUnknownKind, []string{"v1", "v2", "v1"},
		},
		"objects of the kind never exist": {
			[]error{unserved, unserved, unserved}, `["create"]`, false, nil, []string{"v1", "v2", "v1"},
		},
	} {
		reader := func() (*Account, *changing) {
			reads := &changing{errors: c.errors}
			return &Account{Client: reads, discovery: discoveryOf(t, c.verbs)}, reads
		}
		a, reads := reader()
		o, err := a.Get(t.Context(), r)
		require.ErrorIs(t, err, c.want, name)
		require.Equal(t, c.found, o != nil && err == nil, name)
		require.Equal(t, c.read, reads.read, name)
		a, reads = reader()
		m, err := a.Metadata(t.Context(), r)
		require.ErrorIs(t, err, c.want, name)
		require.Equal(t, c.found, m != nil && err == nil, name)
		require.Equal(t, c.read, reads.read, name)
	}
}
