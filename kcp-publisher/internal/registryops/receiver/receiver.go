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

// Path is where registries post notifications.
const Path = "/hook"

// Limits are those of the receiver's server. Whoever reaches the port gets a connection before the token is checked;
// distribution opens one for each event anyway.
var Limits = serve.Limits{
	Connections: 200, HeaderBytes: 8 << 10, BodyBytes: maxBodyBytes, AllBodiesBytes: 8 * maxBodyBytes, Read: 10 * time.Second, Write: 10 * time.Second,
	OneRequest: true,
}

// How many notifications are read each second, and how many with a wrong token are answered as such. A registry that is
// told to come back later does; a flood costs no more than this.
const (
	notificationsPerSecond = 1000
	notificationsAtOnce    = 2000
	refusalsPerSecond      = 10
	refusalsAtOnce         = 50
)

// Receiver answers registries' notifications. It is safe for concurrent use.
type Receiver struct {
	options   Options
	all       *rate.Limiter
	refusals  *rate.Limiter
	announced *rate.Limiter // what is logged of refusals
}

// Options are what a Receiver needs.
type Options struct {
	// Prefix is the path of the fleet's location in the registry, without the host.
	Prefix string
	Tokens *TokenFile
	// Leading reports whether this process is the one that looks at runtimes. Another one tells registries to try again.
	Leading func() bool
	// Look asks for a look at a runtime, and reports whether there is one of that name. It returns at once.
	Look func(runtime string) bool
	Log  logr.Logger
}

// New returns a Receiver.
func New(options Options) *Receiver {
	return &Receiver{
		options: options, all: rate.NewLimiter(notificationsPerSecond, notificationsAtOnce), refusals: rate.NewLimiter(refusalsPerSecond, refusalsAtOnce),
		announced: rate.NewLimiter(rate.Every(time.Minute), 1),
	}
}

// Results of a notification, as the metric has them.
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
	Help: "Notifications of registries: taken (a runtime is looked at), ignored (about something else), refused (a wrong token), invalid (too large, or cannot be decoded), " +
		"limited (too many), standby (another replica works) or unavailable (the token file cannot be read).",
	Labels: []string{"result"},
})

// ServeHTTP answers POST. Nothing of what was sent is answered or logged.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "want POST", http.StatusMethodNotAllowed)
		return
	}
	allowed, err := r.options.Tokens.has(tokenOf(request))
	switch {
	case err != nil:
		r.announce(err, "cannot check the token of notifications", request)
		later(w, resultUnavailable, http.StatusServiceUnavailable)
		return
	case !allowed && !r.refusals.Allow():
		later(w, resultRefused, http.StatusTooManyRequests)
		return
	case !allowed:
		r.announce(errors.New("the token is wrong"), "refused notifications", request)
		received.WithLabelValues(resultRefused).Inc()
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
		return
	case !r.options.Leading():
		later(w, resultStandby, http.StatusServiceUnavailable)
		return
	case !r.all.Allow():
		later(w, resultLimited, http.StatusTooManyRequests)
		return
	}
	r.take(w, request)
}

// take looks at what a registry says that has the token.
func (r *Receiver) take(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		received.WithLabelValues(resultInvalid).Inc()
		http.Error(w, "the body cannot be read, or is too large", http.StatusBadRequest)
		return
	}
	repositories, err := pushed(request.Header.Get("Content-Type"), request.Header.Get(headerType), body)
	if err != nil {
		received.WithLabelValues(resultInvalid).Inc()
		http.Error(w, "the body cannot be decoded", http.StatusBadRequest)
		return
	}
	result := resultIgnored
	for _, runtime := range reporters(r.options.Prefix, repositories) {
		if r.options.Look(runtime) {
			result = resultTaken
		}
	}
	received.WithLabelValues(result).Inc()
	w.WriteHeader(http.StatusAccepted)
}

// announce logs once in a while: whoever reaches the port could fill the log otherwise.
func (r *Receiver) announce(err error, what string, request *http.Request) {
	if r.announced.Allow() {
		r.options.Log.Error(err, what, "from", request.RemoteAddr)
	}
}

func later(w http.ResponseWriter, result string, status int) {
	received.WithLabelValues(result).Inc()
	w.Header().Set("Retry-After", "1")
	http.Error(w, "try again later", status)
}

// tokenOf returns what a registry sends as `Authorization: Bearer TOKEN`, or as the password of a user, which zot has.
func tokenOf(request *http.Request) string {
	if _, password, ok := request.BasicAuth(); ok {
		return password
	}
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
