package manager

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// unfencedPaths contains path prefixes for requests that a process can send without a valid lease: requests for leases,
// and access reviews.
var unfencedPaths = []string{"/apis/coordination.k8s.io/", "/apis/authentication.k8s.io/",
	"/apis/authorization.k8s.io/"}

// leaseFence is an http.RoundTripper that refuses writes to the API server while another process could hold the lease.
// After an API server outage, a process can continue to run although another replica has acquired the lease.
type leaseFence struct {
	next  http.RoundTripper
	lease *Lease
}

// withFence returns a configuration whose clients refuse writes after the lease has expired.
func withFence(config *rest.Config, lease *Lease) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &leaseFence{next, lease} })
	return config
}

func (f *leaseFence) RoundTrip(request *http.Request) (*http.Response, error) {
	if isWrite(request) && f.lease.hasLapsed() {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, errExpired)
	}
	return f.next.RoundTrip(request)
}

func isWrite(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	for _, group := range unfencedPaths {
		if strings.HasPrefix(request.URL.Path, group) {
			return false
		}
	}
	return true
}
