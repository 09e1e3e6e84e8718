package store

import (
	"crypto/tls"
	"net/http"
	"time"
)

// ClientOptions configure an HTTP client for servers other than registries.
type ClientOptions struct {
	// Hosts contains HOST or HOST:PORT for each server that an operator configured. The client connects to any address
	// that these hosts have. For other hosts, such as endpoints in a server's response, it connects only to public and
	// private addresses. It does not connect to loopback addresses, link-local addresses or metadata services.
	Hosts []string
	// Redirects is the rule for redirects. It defaults to RefuseRedirects. A rule that allows other hosts must call
	// RedirectsTo.
	Redirects func(next *http.Request, via []*http.Request) error
	// TLS contains the certificates. By default, the client trusts the system's certificates.
	TLS *tls.Config
	// EncryptedOnly refuses requests over plain HTTP, including requests to endpoints in a server's response.
	EncryptedOnly bool
	// Retry retries failed requests and follows Retry-After headers.
	Retry bool
	// Wrap adds a transport around each request, for example to limit responses. It can be nil.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Timeout limits a request including its response, and HeaderTimeout only the time until its headers arrive.
	// HeaderTimeout defaults to 30 seconds. IdleTimeout limits how long an unused connection stays open.
	Timeout, HeaderTimeout, IdleTimeout time.Duration
}

// NewClient returns an HTTP client that limits redirects and addresses. The programs use only this function and
// NewRegistries for outgoing connections, except connections to the API server and to endpoints in the runtime's
// network.
func NewClient(options ClientOptions) *http.Client {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxResponseHeaderBytes = maxHeaderBytes
	base.ResponseHeaderTimeout = 30 * time.Second
	if options.HeaderTimeout > 0 {
		base.ResponseHeaderTimeout = options.HeaderTimeout
	}
	if options.IdleTimeout > 0 {
		base.IdleConnTimeout = options.IdleTimeout
	}
	base.TLSClientConfig = options.TLS
	if base.TLSClientConfig == nil {
		base.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	limited := newEgress(base)
	limited.foreign = reachPublic | reachPrivate
	for _, host := range options.Hosts {
		limited.allowHost(host, true)
	}
	var sender http.RoundTripper = limited
	if options.Wrap != nil {
		sender = options.Wrap(sender)
	}
	if options.Retry {
		pauses := newPauses(sender)
		pauses.maxWait = maxRetryAfter
		sender = withRetry(pauses)
	}
	redirects := options.Redirects
	if redirects == nil {
		redirects = RefuseRedirects
	}
	return &http.Client{
		Transport: outgoing{sender, limited, options.EncryptedOnly}, CheckRedirect: redirects, Timeout: options.Timeout,
	}
}

// outgoing is a client's transport.
type outgoing struct {
	http.RoundTripper
	egress        *egress
	encryptedOnly bool
}

func (o outgoing) RoundTrip(request *http.Request) (*http.Response, error) {
	if o.encryptedOnly && request.URL.Scheme != "https" {
		return nil, newRefusedError(request, "the URL does not begin with https://")
	}
	return o.RoundTripper.RoundTrip(request)
}

// CloseIdleConnections closes idle connections. The method of http.Client with the same name calls it.
func (o outgoing) CloseIdleConnections() { o.egress.closeIdle() }
