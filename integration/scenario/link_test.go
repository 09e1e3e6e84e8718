package scenario

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// What scenarios say of a link that is cut holds only if an agent has no other way to bundles, content and reports.
func TestAnAgentReachesTheRegistryByItsLinkAlone(t *testing.T) {
	f := newFleet(t, fleet.Options{Links: true})
	var mu sync.Mutex
	byLink, past := 0, []string{}
	f.Registry.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		content := r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v2/modules/") && strings.Contains(r.URL.Path, "/blobs/")
		agents := r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v2/fleet/runtimes/") && strings.Contains(r.URL.Path, "/blobs/") ||
			r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, "/v2/fleet/reports/")
		switch linked := r.Host != f.Registry.Host(); {
		case linked && content:
			byLink++
		case !linked && agents:
			past = append(past, r.Method+" "+r.URL.Path)
		}
		return false
	})
	runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	mu.Lock()
	defer mu.Unlock()
	if byLink == 0 {
		t.Error("the agent has its module's content from elsewhere")
	}
	if len(past) > 0 {
		t.Errorf("the agent went past its link: %v", past)
	}
}
