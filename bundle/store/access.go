package store

import (
	"net/http"
	"time"
)

// Access configures the access to registries.
type Access struct {
	// DockerConfig is the content of a docker config.json, or empty.
	DockerConfig []byte
	// Login returns the credentials for hosts that DockerConfig does not contain. It can be nil.
	Login LoginFunc
	// CA contains PEM certificates of authorities that are trusted in addition to the authorities of the operating
	// system.
	CA []byte
	// PlainHTTP uses HTTP for all registries. Registries at loopback addresses use HTTP even without PlainHTTP, unless
	// CA is set.
	PlainHTTP bool
	// RequestTimeout limits a request's duration, including its body. It defaults to DefaultRequestTimeout.
	RequestTimeout time.Duration
	// NoRetry disables retries, for callers with their own backoff.
	NoRetry bool
	// BlobHosts are the hosts, as HOST or HOST:PORT, that registries can redirect requests to. The registry's own host
	// does not need an entry.
	BlobHosts []string
	// Observe wraps the HTTP transport, for example to count requests. It can be nil.
	Observe func(http.RoundTripper) http.RoundTripper
	// Renew returns the current values of the fields DockerConfig and CA. Other fields of the result are ignored. Nil
	// means that DockerConfig and CA do not change.
	Renew func() (Access, error)
}

// DefaultRequestTimeout is the default for Access.RequestTimeout.
const DefaultRequestTimeout = time.Minute
