package receiver

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"github.com/kyma-pull/kyma-pull/internal/measure"
	"github.com/kyma-pull/kyma-pull/internal/serve"
)

// Path is the path of the receiver.
const Path = "/hook"

// Limits bounds the connections of the receiver's server. Each connection serves one request, because distribution
// opens a connection for each event.
var Limits = serve.Limits{
	Connections: 200, HeaderBytes: 8 << 10, BodyBytes: maxBodyBytes, AllBodiesBytes: 8 * maxBodyBytes,
	Read: 10 * time.Second, Write: 10 * time.Second,
	OneRequest: true,
}

// Limits for the rates of notifications, of their bytes, and of responses to a wrong token. If a notification exceeds a
// rate, the registry sends it again. Parsing bytesPerSecond needs a fraction of a CPU core.
const (
	notificationsPerSecond = 1000
	notificationsAtOnce    = 2000
	bytesPerSecond         = 16 << 20
	bytesAtOnce            = 16 * maxBodyBytes
	refusalsPerSecond      = 10
	refusalsAtOnce         = 50
)

// Receiver accepts registries' notifications. It is safe for concurrent use.
type Receiver struct {
	options    Options
	totalLimit *rate.Limiter
	bytesLimit *rate.Limiter
	refusals   *rate.Limiter
	announced  *rate.Limiter // limits log messages about refusals
}

// Options configures a Receiver.
type Options struct {
	// Prefix is the path of the fleet's location in the registry, without the host.
	Prefix string
	Tokens *TokenFile
	// Leading reports whether this process is the leader. If it is not, the receiver asks registries to try again.
	Leading func() bool
	// Request requests a read of a runtime's report, and reports whether the runtime exists. It must not block.
	Request func(runtime string) bool
	Log     logr.Logger
}

// New returns a Receiver.
func New(options Options) *Receiver {
	return &Receiver{
		options: options, totalLimit: rate.NewLimiter(notificationsPerSecond, notificationsAtOnce),
		bytesLimit: rate.NewLimiter(bytesPerSecond, bytesAtOnce),
		refusals:   rate.NewLimiter(refusalsPerSecond, refusalsAtOnce),
		announced:  rate.NewLimiter(rate.Every(time.Minute), 1),
	}
}

// Notification results, as metric labels.
const (
	resultTaken       = "taken"
	resultIgnored     = "ignored"
	resultRefused     = "refused"
	resultInvalid     = "invalid"
	resultLimited     = "limited"
	resultStandby     = "standby"
	resultUnavailable = "unavailable"
)

var received = measure.Counters[string](measure.Definition{
	Name: "kyma_pull_publisher_notifications_received_total",
	Help: "Notifications from registries: taken (a runtime's report is read), " +
		"ignored (not about a runtime's report), refused (a wrong token), invalid (too large, or cannot be decoded), " +
		"limited (too many), standby (another replica is active) or unavailable (the token file cannot be read).",
	Labels: []string{"result"},
})

// ServeHTTP accepts POST. It does not return or log any part of the request.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "the method must be POST", http.StatusMethodNotAllowed)
		return
	}
	allowed, err := r.options.Tokens.hasToken(requestToken(request))
	switch {
	case err != nil:
		r.announce(err, "failed to check the token of a notification", request)
		respondLater(w, resultUnavailable, http.StatusServiceUnavailable)
		return
	case !allowed && !r.refusals.Allow():
		respondLater(w, resultRefused, http.StatusTooManyRequests)
		return
	case !allowed:
		r.announce(errors.New("invalid token"), "refused a notification", request)
		received.WithLabelValues(resultRefused).Inc()
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the token is missing or invalid", http.StatusUnauthorized)
		return
	case !r.options.Leading():
		respondLater(w, resultStandby, http.StatusServiceUnavailable)
		return
	case !r.totalLimit.Allow(), !r.bytesLimit.AllowN(time.Now(), announcedBytes(request)):
		respondLater(w, resultLimited, http.StatusTooManyRequests)
		return
	}
	r.accept(w, request)
}

// announcedBytes returns the length of a request's body, or the maximum length if the length is unknown.
func announcedBytes(request *http.Request) int {
	if request.ContentLength < 0 {
		return maxBodyBytes
	}
	return int(min(request.ContentLength, bytesAtOnce+1))
}

func (r *Receiver) accept(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		received.WithLabelValues(resultInvalid).Inc()
		http.Error(w, "the body cannot be read, or is too large", http.StatusBadRequest)
		return
	}
	repositories, err := pushedRepositories(request.Header.Get("Content-Type"), request.Header.Get(headerType), body)
	if err != nil {
		received.WithLabelValues(resultInvalid).Inc()
		http.Error(w, "the body cannot be decoded", http.StatusBadRequest)
		return
	}
	result := resultIgnored
	for _, runtime := range reportingRuntimes(r.options.Prefix, repositories) {
		if r.options.Request(runtime) {
			result = resultTaken
		}
	}
	received.WithLabelValues(result).Inc()
	w.WriteHeader(http.StatusAccepted)
}

// announce logs a refusal. It limits the rate, so that a client cannot fill the log.
func (r *Receiver) announce(err error, what string, request *http.Request) {
	if r.announced.Allow() {
		r.options.Log.Error(err, what, "from", request.RemoteAddr)
	}
}

func respondLater(w http.ResponseWriter, result string, status int) {
	received.WithLabelValues(result).Inc()
	w.Header().Set("Retry-After", "1")
	http.Error(w, "try again later", status)
}

// requestToken returns the token from `Authorization: Bearer TOKEN`, or the password from Basic credentials, which zot
// sends.
func requestToken(request *http.Request) string {
	if _, password, ok := request.BasicAuth(); ok {
		return password
	}
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
