package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Rate and burst for refusals and their log messages, so that a flood of requests cannot fill the disk.
const (
	refusalsPerSecond = 10
	refusalsAtOnce    = 50
)

// maxQueryBytes is enough for 16 scopes with the longest names.
const maxQueryBytes = 8 << 10

// Service serves requests for tokens. It is safe for concurrent use.
type Service struct {
	passwords Passwords
	policy    Policy
	issuer    *Issuer
	now       func() time.Time
	freshID   func() string
	log       logr.Logger
	refusals  *rate.Limiter

	mu       sync.Mutex      // guards the fields below
	outdated map[string]bool // users about whom announceOutdated has logged
}

// Options configures a Service.
type Options struct {
	// Secrets returns the secrets for deriving passwords, newest first. While it returns an error, all users are
	// refused.
	Secrets func() (trust.TokenSecrets, error)
	Policy  Policy
	Issuer  *Issuer
	// InForce returns the lowest valid generation for a user's password. While it returns an error, all users are
	// refused.
	InForce func(user string) (int, error)
	Now     func() time.Time
	// FreshID returns a unique identifier for a token.
	FreshID func() string
	Log     logr.Logger
}

// NewService returns a Service.
func NewService(o Options) (*Service, error) {
	secrets, err := o.Secrets()
	if err != nil {
		return nil, err
	}
	for _, secret := range secrets {
		if err := checkSecret(secret); err != nil {
			return nil, err
		}
	}
	return &Service{
		passwords: Passwords{Secrets: o.Secrets, InForce: o.InForce}, policy: o.Policy, issuer: o.Issuer, now: o.Now,
		freshID: o.FreshID, log: o.Log,
		refusals: rate.NewLimiter(refusalsPerSecond, refusalsAtOnce), outdated: map[string]bool{},
	}, nil
}

// tokenResponse is the response to a token request.
//
// Source: distribution, docs/spec/auth/token.md, "Token Response Fields".
type tokenResponse struct {
	Token       string    `json:"token"`
	AccessToken string    `json:"access_token"`
	ExpiresIn   int       `json:"expires_in"`
	IssuedAt    time.Time `json:"issued_at"`
}

// ServeHTTP accepts GET with service, scope and Basic credentials. It does not log credentials or requested scopes.
func (s *Service) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if request.Method != http.MethodGet {
		// A client that starts with an OAuth 2 request, which uses POST, then repeats the request with GET.
		w.Header().Set("Allow", http.MethodGet)
		writeProblem(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "the method must be GET")
		return
	}
	user, err := s.authenticate(request)
	if err != nil {
		s.refuse(w, request, err)
		return
	}
	asked, err := s.requestedAccess(request)
	if err != nil {
		writeProblem(w, http.StatusBadRequest, "UNSUPPORTED", err.Error())
		return
	}
	now := s.now().UTC().Truncate(time.Second)
	signed, err := s.issuer.sign(user, s.policy.Grant(user, asked), s.freshID(), now)
	if err != nil {
		s.log.Error(err, "failed to sign a token", "user", user)
		writeProblem(w, http.StatusInternalServerError, "UNKNOWN", "failed to sign the token")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// An error means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(tokenResponse{
		Token: signed, AccessToken: signed, ExpiresIn: int(Validity.Seconds()), IssuedAt: now,
	})
}

func (s *Service) authenticate(request *http.Request) (string, error) {
	user, password, ok := request.BasicAuth()
	if !ok {
		return "", errRefused
	}
	which, err := s.passwords.Check(user, password)
	if err == nil && which > 0 {
		s.announceOutdated(user)
	}
	return user, err
}

// announceOutdated logs once per user that the password must be replaced before the next rotation.
func (s *Service) announceOutdated(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.outdated[user] {
		s.outdated[user] = true
		s.log.Info(
			"a password derived from the previous token.key is in use: replace it before the next "+
				"`kcp-publisher keys rotate token`", "user", user)
	}
}

func (s *Service) requestedAccess(request *http.Request) ([]Access, error) {
	if len(request.URL.RawQuery) > maxQueryBytes {
		return nil, fmt.Errorf("query: more than %d bytes", maxQueryBytes)
	}
	query, err := url.ParseQuery(request.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("query cannot be parsed")
	}
	if services := query["service"]; len(services) != 1 || services[0] != s.issuer.Service {
		return nil, fmt.Errorf("service: must be %q", s.issuer.Service)
	}
	return parseScopes(query["scope"])
}

func (s *Service) refuse(w http.ResponseWriter, request *http.Request, err error) {
	if !s.refusals.AllowN(s.now(), 1) {
		w.Header().Set("Retry-After", "5")
		writeProblem(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "too many refusals")
		return
	}
	if !errors.Is(err, errRefused) {
		s.log.Error(err, "failed to issue a token")
		writeProblem(w, http.StatusServiceUnavailable, "UNAVAILABLE", "try again later")
		return
	}
	if _, _, tried := request.BasicAuth(); tried {
		s.log.Info("refused a password", "from", request.RemoteAddr)
	}
	w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Basic realm=%q, charset="UTF-8"`, s.issuer.Service))
	writeProblem(w, http.StatusUnauthorized, "UNAUTHORIZED", err.Error())
}

// writeProblem writes an error response.
//
// Source: OCI distribution-spec 1.1, "Error Codes".
func writeProblem(w http.ResponseWriter, status int, code, message string) {
	type item struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(map[string][]item{"errors": {{code, message}}})
}
