package notify

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/serve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/token"
)

// Rate and burst for responses to wrong credentials. The server responds with status 429 above this rate.
const (
	refusalsPerSecond = 50
	refusalsAtOnce    = 200
)

// maxPending limits the connections without an accepted agent, such as TLS handshakes.
const maxPending = 1000

// Options configures Subscribers.
type Options struct {
	// Connections limits the number of connected agents.
	Connections int
	// Passwords verifies registry passwords.
	Passwords token.Passwords
	// Serves reports whether this process publishes the runtime's bundles. If it does not, the server asks the agent to
	// connect again, because another replica can accept the connection.
	Serves func(runtime string) bool
	Log    logr.Logger
}

// Limits bounds the connections to the notification server on which no agent has been accepted yet. Options.Connections
// limits the connections of accepted agents.
var Limits = serve.Limits{
	Connections: maxPending, HeaderBytes: 4 << 10, BodyBytes: 1 << 10, AllBodiesBytes: 1 << 20,
	Read: 5 * time.Second, Write: writeTimeout,
	OneRequest: true,
}

// New returns an http.Handler for bundle.NotificationsPath, and its Subscribers.
func New(options Options) (*Subscribers, http.Handler) {
	s := &Subscribers{options: options, byRuntime: map[string][]*subscriber{}, connects: map[string]*rate.Limiter{}}
	h := &handler{
		Subscribers: s, refusals: rate.NewLimiter(refusalsPerSecond, refusalsAtOnce),
		announced: rate.NewLimiter(rate.Every(time.Minute), 1),
	}
	return s, h
}

type handler struct {
	*Subscribers
	refusals  *rate.Limiter
	announced *rate.Limiter // limits log lines about refusals
}

// streamHeader is the start of the response to an agent. The response does not have a length: it ends when the
// connection closes. X-Accel-Buffering turns off buffering in nginx.
//
// Source: RFC 9112, section 6.3, "Message Body Length", rule 8.
const streamHeader = "HTTP/1.1 200 OK\r\nContent-Type: " + bundle.NotificationsMediaType +
	"\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\nConnection: close\r\n\r\n:\n\n"

// ServeHTTP accepts GET with a runtime's Basic credentials. It never logs credentials.
func (h *handler) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if request.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "the method must be GET", http.StatusMethodNotAllowed)
		return
	}
	runtime, err := h.authenticate(request)
	switch {
	case err != nil && !h.refusals.Allow():
		refuse(w, "limited", http.StatusTooManyRequests, "too many refusals")
	case err != nil && !token.IsRefused(err):
		h.announce(err, "failed to verify agents' passwords", request)
		refuse(w, "credentials", http.StatusServiceUnavailable, "try again later")
	case err != nil:
		h.announce(err, "refused a password for notifications", request)
		w.Header().Set("WWW-Authenticate", `Basic realm="kyma-pull", charset="UTF-8"`)
		refuse(w, "credentials", http.StatusUnauthorized, "credentials required: runtime ID and registry password")
	case !h.options.Serves(runtime):
		refuse(w, "standby", http.StatusServiceUnavailable, "another replica publishes for the runtime: try again")
	case !h.mayConnect(runtime):
		refuse(w, "limited", http.StatusTooManyRequests, "the runtime connects too often")
	case h.isFull(runtime):
		refuse(w, "full", http.StatusServiceUnavailable, "too many connections: try again later")
	default:
		if err := h.accept(w, runtime); err != nil {
			refuse(w, "full", http.StatusServiceUnavailable, "try again later")
		}
	}
}

// accept takes the connection over from the HTTP server.
func (h *handler) accept(w http.ResponseWriter, runtime string) error {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("take over the connection: %w", err)
	}
	if !h.add(runtime, conn, []byte(streamHeader)) {
		closeLater(conn)
	}
	if !h.options.Serves(runtime) { // another replica has taken over since the first check
		h.Disconnect(func(other string) bool { return other == runtime })
	}
	return nil
}

func closeLater(conn net.Conn) { go func() { _ = conn.Close() }() }

func (h *handler) authenticate(request *http.Request) (string, error) {
	user, password, _ := request.BasicAuth()
	if trust.CheckRuntimeID(user) != nil {
		user = ""
	}
	_, err := h.options.Passwords.Check(user, password)
	return user, err
}

// announce logs a refusal. It limits the rate, so that a client cannot fill the log.
func (h *handler) announce(err error, what string, request *http.Request) {
	if h.announced.Allow() {
		h.options.Log.Error(err, what, "from", request.RemoteAddr)
	}
}

// retryAfter maps the reason for a refusal to the number of seconds that the agent waits before it connects again. The
// time is short for "standby", because another replica can accept the connection.
var retryAfter = map[string]string{"standby": "1", "limited": "5", "credentials": "5", "full": "5"}

func refuse(w http.ResponseWriter, reason string, status int, why string) {
	refused.WithLabelValues(reason).Inc()
	w.Header().Set("Retry-After", retryAfter[reason])
	http.Error(w, why, status)
}
