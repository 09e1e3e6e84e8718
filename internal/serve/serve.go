// Package serve creates the HTTP servers for kcp-publisher and skr-agent. The servers limit each request's time and
// memory, and the connections and memory for all requests together, because unauthenticated clients can send many slow
// requests.
package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Limits contains a server's limits. All limits are required.
type Limits struct {
	// Connections is the maximum number of open connections, without hijacked connections. Further connections wait.
	Connections int
	// HeaderBytes, BodyBytes and AllBodiesBytes are the maximum sizes of a request's header, of its body, and of the
	// bodies of all current requests.
	HeaderBytes               int
	BodyBytes, AllBodiesBytes int64
	// Read limits the time to receive a request, and Write the time to send a response.
	Read, Write time.Duration
	// OneRequest closes each connection after one request, because idle connections would block other clients.
	OneRequest bool
}

// handshakeBytes is the maximum memory for a connection that has not sent a request. An unauthenticated client can make
// crypto/tls store an incomplete handshake message of 64 KiB, in buffers that are larger than the message.
const handshakeBytes = 150 << 10

// Memory returns the maximum memory for the server's connections and requests.
func (l Limits) Memory() int64 {
	return int64(l.Connections)*int64(handshakeBytes+l.HeaderBytes) + l.AllBodiesBytes
}

// Small contains the limits for servers that serve probes, metrics and tokens. Requests to these servers do not have a
// body.
var Small = Limits{
	Connections: 100, HeaderBytes: 16 << 10, BodyBytes: 1 << 10, AllBodiesBytes: 100 << 10, Read: 10 * time.Second,
	Write: time.Minute, OneRequest: true,
}

const (
	// headerTimeout limits the time for the TLS handshake and for reading a request's header.
	headerTimeout = 3 * time.Second
	// unreadTimeout limits the time for the part of a body that a handler has not read, for example because the client
	// is not authenticated. It applies to servers with OneRequest.
	unreadTimeout = 500 * time.Millisecond
	// idleTimeout exceeds the idle timeout of Go's HTTP client. The client then closes an idle connection first, so
	// no request is lost.
	idleTimeout = 2 * time.Minute
	// shutdownTimeout is the time for active requests to complete when the program ends.
	shutdownTimeout = 5 * time.Second
)

// New returns a server that enforces the limits. Listen limits the number of connections.
func New(handler http.Handler, limits Limits) *http.Server {
	server := &http.Server{
		Handler: limitBodies(handler, limits), MaxHeaderBytes: limits.HeaderBytes,
		ReadHeaderTimeout: min(headerTimeout, limits.Read), ReadTimeout: limits.Read, WriteTimeout: limits.Write,
		IdleTimeout: idleTimeout, ConnState: releaseHijacked, ErrorLog: newErrorLog(),
	}
	server.SetKeepAlivesEnabled(!limits.OneRequest)
	return server
}

// Listen listens on an address and limits the number of connections. If config is not nil, clients must use TLS.
func Listen(ctx context.Context, address string, config *tls.Config, limits Limits) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	listener = newLimitedListener(listener, limits.Connections)
	if config == nil {
		return listener, nil
	}
	config = config.Clone()
	config.MinVersion, config.NextProtos = tls.VersionTLS12, []string{"http/1.1"}
	return tls.NewListener(listener, config), nil
}

// Add adds a server to a manager. The manager runs the server in every replica and starts it before its caches.
func Add(mgr manager.Manager, name, address string, config *tls.Config, handler http.Handler, limits Limits) error {
	listener, err := Listen(context.Background(), address, config, limits)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	timeout := shutdownTimeout
	return mgr.Add(&manager.Server{
		Name: name, Server: New(handler, limits), Listener: listener, ShutdownTimeout: &timeout,
	})
}

// limitBodies refuses large bodies. A request waits until the bodies of all current requests fit into AllBodiesBytes. A
// body with unknown length is treated as BodyBytes long.
func limitBodies(next http.Handler, limits Limits) http.Handler {
	all := semaphore.NewWeighted(limits.AllBodiesBytes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		if size > limits.BodyBytes {
			w.Header().Set("Connection", "close")
			http.Error(w, fmt.Sprintf("the body is %d bytes, must be at most %d", size, limits.BodyBytes),
				http.StatusRequestEntityTooLarge)
			return
		}
		if size < 0 {
			size = limits.BodyBytes
		}
		waiting, cancel := context.WithTimeout(r.Context(), limits.Read)
		defer cancel()
		if err := all.Acquire(waiting, size); err != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many concurrent requests", http.StatusServiceUnavailable)
			return
		}
		defer all.Release(size)
		r.Body = http.MaxBytesReader(w, r.Body, limits.BodyBytes)
		next.ServeHTTP(w, r)
		if limits.OneRequest && r.ContentLength != 0 {
			// The server reads the rest of the body before it closes the connection, so limit the time to read it. Only
			// a ResponseWriter in a test returns an error.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTimeout))
		}
	})
}
