package command

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// longWatches returns a configuration whose watches last as long as the API server allows, 30 to 60 minutes by default.
// client-go requests 5 to 10 minutes. With 20 watches, it opens about three watches per minute, which is most of the
// load of an idle runtime. HTTP/2 pings detect broken connections, so the shorter timeout is not needed to detect them.
//
// Source: kube-apiserver, --min-request-timeout; client-go, Reflector.
func longWatches(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return withoutTimeout{next} })
	return config
}

// withoutTimeout is a RoundTripper that removes the timeout from watch requests.
type withoutTimeout struct{ next http.RoundTripper }

// RoundTrip sends a request without the timeout of its watch.
func (w withoutTimeout) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if request.Method == http.MethodGet && query.Get("watch") == "true" && query.Has("timeoutSeconds") {
		query.Del("timeoutSeconds")
		request = request.Clone(request.Context())
		request.URL.RawQuery = query.Encode()
	}
	return w.next.RoundTrip(request)
}
