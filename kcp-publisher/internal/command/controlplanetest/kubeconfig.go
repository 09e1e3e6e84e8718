package controlplanetest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Kubeconfig starts the server and returns the path of its kubeconfig. Unlike the server that Connect starts, this
// server also supports discovery, merge patches for Kymas and the creation of Events, and lists the given namespaces.
func (s *Server) Kubeconfig(tb testing.TB, namespaces ...string) string {
	tb.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", s)
	serve := func(pattern string, body func(r *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(body(r))
		})
	}
	serve("GET /api", func(*http.Request) any {
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	})
	serve("GET /apis", func(*http.Request) any {
		groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
		for _, group := range []schema.GroupVersion{v1beta2.GroupVersion, v1alpha1.GroupVersion} {
			version := metav1.GroupVersionForDiscovery{GroupVersion: group.String(), Version: group.Version}
			groups.Groups = append(groups.Groups, metav1.APIGroup{
				Name: group.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
			})
		}
		return groups
	})
	serve("GET /api/v1", discovered("v1", "Event", "ConfigMap", "Secret"))
	operator := v1beta2.GroupVersion.String()
	serve("GET /apis/"+operator, discovered(operator, "Kyma", "ModuleReleaseMeta", "ModuleTemplate"))
	rollouts := v1alpha1.GroupVersion.String()
	serve("GET /apis/"+rollouts, discovered(rollouts, "Rollout", "RolloutPolicy", "PromotionPolicy"))
	leases := coordinationv1.SchemeGroupVersion.String()
	serve("GET /apis/"+leases, discovered(leases, "Lease"))
	serve("GET /apis/"+leases+"/", func(*http.Request) any {
		return coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{APIVersion: leases, Kind: "LeaseList"}}
	})
	serve("GET /api/v1/namespaces", func(*http.Request) any {
		list := corev1.NamespaceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}}
		for _, name := range namespaces {
			list.Items = append(list.Items, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		return list
	})
	serve("POST /api/v1/namespaces/{namespace}/events", func(r *http.Request) any {
		var event corev1.Event
		_ = json.NewDecoder(r.Body).Decode(&event) // the server does not store Events
		return event
	})
	mux.HandleFunc("GET /api/v1/namespaces/", http.NotFound)
	serve("PATCH /apis/"+operator+"/namespaces/{namespace}/kymas/{name}", s.patch(tb))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.changes.Lock()
		defer s.changes.Unlock()
		mux.ServeHTTP(w, r)
	}))
	tb.Cleanup(server.Close)
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	config := `{"apiVersion":"v1","kind":"Config","current-context":"kcp",
		"contexts":[{"name":"kcp","context":{"cluster":"kcp"}}],
		"clusters":[{"name":"kcp","cluster":{"server":"` + server.URL + `"}}]}`
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// discovered returns a function that lists the kinds of a group version, for discovery requests.
func discovered(groupVersion string, kinds ...string) func(*http.Request) any {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: groupVersion,
	}
	for _, kind := range kinds {
		plural := strings.ToLower(kind) + "s"
		if single, is := strings.CutSuffix(plural, "ys"); is {
			plural = single + "ies"
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: plural, Kind: kind, Namespaced: true, Verbs: []string{"get", "list", "patch", "create"},
		})
	}
	return func(*http.Request) any { return list }
}

// patch returns a function that applies a merge patch to a Kyma, and returns the Kyma.
func (s *Server) patch(tb testing.TB) func(*http.Request) any {
	return func(r *http.Request) any {
		at := slices.IndexFunc(s.Kymas, func(k v1beta2.Kyma) bool {
			return k.Name == r.PathValue("name") && k.Namespace == r.PathValue("namespace")
		})
		change, err := io.ReadAll(r.Body)
		if err != nil {
			tb.Error(err)
		}
		data, err := jsonpatch.MergePatch(s.Items[at], change)
		if err != nil {
			tb.Error(err)
		}
		s.Items[at], s.Kymas[at] = data, v1beta2.Kyma{}
		if err := json.Unmarshal(data, &s.Kymas[at]); err != nil {
			tb.Error(err)
		}
		return s.Items[at]
	}
}
