package account

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// A chart must render the same objects while the server of an aggregated API is not available.
func TestUnavailableAPIStaysInTheCapabilities(t *testing.T) {
	group := metav1.GroupVersionForDiscovery{GroupVersion: "metrics.example/v1", Version: "v1"}
	answers := map[string]any{
		"/version": version.Info{GitVersion: "v1.36.3"},
		"/api":     metav1.APIVersions{Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{Groups: []metav1.APIGroup{{
			Name: "metrics.example", Versions: []metav1.GroupVersionForDiscovery{group}, PreferredVersion: group,
		}}},
		"/api/v1": metav1.APIResourceList{
			GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod"}},
		},
		"/apis/metrics.example/v1": metav1.APIResourceList{
			GroupVersion: "metrics.example/v1", APIResources: []metav1.APIResource{{Name: "loads", Kind: "Load"}},
		},
	}
	available := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.Path]
		if !known || !available && r.URL.Path == "/apis/metrics.example/v1" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	kept, restarted := &Account{discovery: client}, &Account{discovery: client}
	for _, step := range []struct {
		account   *Account
		available bool
		want      []string
	}{
		{kept, true, []string{"metrics.example/v1", "metrics.example/v1/Load", "v1", "v1/Pod"}},
		{kept, false, []string{"metrics.example/v1", "metrics.example/v1/Load", "v1", "v1/Pod"}},
		{restarted, false, []string{"metrics.example/v1", "v1", "v1/Pod"}},
	} {
		available = step.available
		got, err := step.account.Capabilities()
		if err != nil || !slices.Equal(got.APIVersions, step.want) {
			t.Errorf("available %t: got %q and error %v, want %q", available, got.APIVersions, err, step.want)
		}
	}
}
