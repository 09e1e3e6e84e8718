package command

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// longWatches returns a configuration whose watches have the maximum duration that the API server allows: 30 to 60
// minutes by default. client-go ends its watches after 5 to 10 minutes, and these restarts cause most of an idle
// runtime's load.
//
// Source: kube-apiserver, --min-request-timeout; client-go, Reflector.
func longWatches(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return withoutTimeout{next} })
	return config
}

// withoutTimeout is a RoundTripper that removes the timeout from watch requests.
type withoutTimeout struct{ next http.RoundTripper }

func (w withoutTimeout) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if request.Method == http.MethodGet && query.Get("watch") == "true" && query.Has("timeoutSeconds") {
		query.Del("timeoutSeconds")
		request = request.Clone(request.Context())
		request.URL.RawQuery = query.Encode()
	}
	return w.next.RoundTrip(request)
}
