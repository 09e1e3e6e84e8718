package access

import (
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TokenClients creates clients with a user token's permissions. It does not use the UI's own credentials. The clients
// share connections.
type TokenClients struct {
	config  *rest.Config
	base    http.RoundTripper
	options client.Options
}

// NewActing returns TokenClients for the API server in config, without the credentials in config. The options must
// contain the scheme and the mapper.
func NewActing(config *rest.Config, options client.Options) (*TokenClients, error) {
	anonymous := rest.AnonymousClientConfig(config)
	base, err := rest.TransportFor(anonymous)
	if err != nil {
		return nil, err
	}
	return &TokenClients{config: anonymous, base: base, options: options}, nil
}

// With returns a client that uses a token.
func (a *TokenClients) With(token string) (client.Client, error) {
	options := a.options
	options.HTTPClient = &http.Client{
		Transport: transport.NewBearerAuthRoundTripper(token, a.base), Timeout: reviewTimeout,
		// A redirect would send the token to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client.New(a.config, options)
}
