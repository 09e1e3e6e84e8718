package account

import (
	"context"
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

// lagging is a client whose first reads fail as if the API server did not serve the kind.
type lagging struct {
	client.Client
	failures int
}

func (l *lagging) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	if l.failures--; l.failures >= 0 {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "", 0, true)
	}
	return nil
}

// discoveryOf returns a client for a server that lists kind Thing in example.org/v1 with the given verbs.
func discoveryOf(t *testing.T, verbs string) discovery.DiscoveryInterface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text := map[string]string{
			"/api": `{"kind": "APIVersions", "versions": []}`,
			"/apis": `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "example.org",
				"versions": [{"groupVersion": "example.org/v1", "version": "v1"}]}]}`,
			"/apis/example.org/v1": `{"kind": "APIResourceList", "groupVersion": "example.org/v1", "resources":
				[{"name": "things", "kind": "Thing", "namespaced": true, "verbs": ` + verbs + `}]}`,
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
	for name, c := range map[string]struct {
		failures int
		verbs    string
		found    bool
		want     error
	}{
		"version that is served at the second read": {1, `["get", "list"]`, true, nil},
		"version that is listed but not served yet": {2, `["get", "list"]`, false, content.ErrUnknownKind},
		"kind that is never stored":                 {2, `["create"]`, false, nil},
	} {
		read := func() *Account {
			return &Account{Client: &lagging{failures: c.failures}, discovery: discoveryOf(t, c.verbs)}
		}
		o, err := read().Get(t.Context(), r)
		require.ErrorIs(t, err, c.want, name)
		require.Equal(t, c.found, o != nil && err == nil, name)
		m, err := read().Metadata(t.Context(), r)
		require.ErrorIs(t, err, c.want, name)
		require.Equal(t, c.found, m != nil && err == nil, name)
	}
}
