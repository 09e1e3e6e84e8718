package store

import (
	"net/http"
	"time"
)

// Access configures the access to registries.
type Access struct {
	// DockerConfig is the content of a docker config.json, or empty.
	DockerConfig []byte
	// CA is a PEM bundle of certificate authorities in addition to the system's.
	CA []byte
	// PlainHTTP uses HTTP for every registry. Without a CA, loopback addresses always use HTTP, as with docker.
	PlainHTTP bool
	// RequestTimeout limits one request with its body. It defaults to DefaultRequestTimeout.
	RequestTimeout time.Duration
	// NoRetry disables retries, for callers with their own backoff.
	NoRetry bool
	// BlobHosts are additional hosts, HOST or HOST:PORT, to which registries can redirect.
	BlobHosts []string
	// Observe wraps the transport, for example to count requests, or is nil.
	Observe func(http.RoundTripper) http.RoundTripper
	// Renew returns the current DockerConfig and CA, or is nil if they do not change. Other fields of its result have
	// no effect.
	Renew func() (Access, error)
}

// DefaultRequestTimeout limits one request to a registry, including its body.
const DefaultRequestTimeout = time.Minute
