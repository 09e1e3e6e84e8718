package manager

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// unfenced are the API groups that a process without its lease can write to: leases, and reviews, which change nothing.
var unfenced = []string{"/apis/coordination.k8s.io/", "/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/"}

// fence refuses writes to the API server while the lease of the process may be another one's. An elector that tolerates
// an unresponsive API server for longer than the lease lasts needs it: once the API server responds again, the former
// holder does not know yet whether another replica took over.
type fence struct {
	next  http.RoundTripper
	lease *Lease
}

// fenced returns a configuration whose clients write only while the lease is valid.
func fenced(config *rest.Config, lease *Lease) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fence{next, lease} })
	return config
}

// RoundTrip sends the request unless it is a refused write.
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
