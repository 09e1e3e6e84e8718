package access

import (
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Acting makes clients that have the rights of a user's token and no others: nobody is impersonated, and the page's own credentials stay out
// of it. They share connections, which carry no credentials of their own.
type Acting struct {
	config  *rest.Config
	base    http.RoundTripper
	options client.Options
}

// NewActing returns Acting for the API server of a configuration, of whose credentials nothing is taken. The options name the scheme and the mapper:
// users need not be able to discover kinds.
func NewActing(config *rest.Config, options client.Options) (*Acting, error) {
	anonymous := rest.AnonymousClientConfig(config)
	base, err := rest.TransportFor(anonymous)
	if err != nil {
		return nil, err
	}
	return &Acting{config: anonymous, base: base, options: options}, nil
}

// With returns a client of whoever a token is.
func (a *Acting) With(token string) (client.Client, error) {
	options := a.options
	options.HTTPClient = &http.Client{
		Transport: transport.NewBearerAuthRoundTripper(token, a.base), Timeout: reviewTimeout,
		// The token is for this API server alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client.New(a.config, options)
}
