package manager

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// unfenced contains path prefixes of requests that a process can send without a valid lease: requests for leases, and
// access reviews.
var unfenced = []string{"/apis/coordination.k8s.io/", "/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/"}

// fence is an http.RoundTripper that refuses writes to the API server while another process could hold the lease.
// After an outage of the API server, a process can continue to run although another replica has acquired the lease.
type fence struct {
	next  http.RoundTripper
	lease *Lease
}

// fenced returns a configuration whose clients refuse writes after the lease has expired.
func fenced(config *rest.Config, lease *Lease) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fence{next, lease} })
	return config
}

func (f *fence) RoundTrip(request *http.Request) (*http.Response, error) {
	if writes(request) && f.lease.lapsed() {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, errExpired)
	}
	return f.next.RoundTrip(request)
}

func writes(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	for _, group := range unfenced {
		if strings.HasPrefix(request.URL.Path, group) {
			return false
		}
	}
	return true
}
