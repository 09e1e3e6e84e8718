package signin

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/oauth2"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Paths that this package serves.
const (
	pathSignIn   = "/sign-in"
	pathToken    = pathSignIn + "/token"
	pathOIDC     = pathSignIn + "/oidc"
	pathCallback = pathSignIn + "/callback"
	pathSignOut  = "/sign-out"
)

// PathSignOut accepts POST requests to sign out. PathCallback is the callback path for OIDC providers.
const (
	PathSignOut  = pathSignOut
	PathCallback = pathCallback
)

const (
	flowLifetime = 10 * time.Minute
	// maxForm is the maximum size of a sign-in form in bytes. The form contains a token and a few short fields.
	maxForm = maxToken + 4<<10
)

// User is an authenticated user.
type User struct {
	user.Info
	// Token is the user's bearer token for the API server, or empty.
	Token string
	// Session is true if the user has a session and can sign out.
	Session bool
}

// Options configure a Service.
type Options struct {
	// External is the UI's URL in browsers: https, or http on localhost. Requests for other hosts are refused.
	External *url.URL
	Keys     *KeyFile
	// Tokens verifies bearer tokens. If Tokens is nil, bearer tokens are not accepted. OIDCOptions.APIToken requires
	// Tokens.
	Tokens *Tokens
	// TokenForm enables signing in with a bearer token, in a form or in the Authorization header.
	TokenForm bool
	// OIDC is the provider, or nil to disable OIDC.
	OIDC *OIDC
	// Proxies is the number of trusted proxies in front of the UI, which append to X-Forwarded-For.
	Proxies int
	// Lifetime is a session's maximum duration. Recheck is a request's maximum duration: the browser reconnects an
	// event stream after this time, and the user is authenticated again.
	Lifetime, Recheck time.Duration
	Now               func() time.Time
	Log               logr.Logger
}

// Service authenticates users. It is safe for concurrent use.
type Service struct {
	Options
	// tries limits the attempts to sign in with a token. exchanges limits the attempts to sign in with the OIDC
	// provider.
	tries, exchanges *attemptLimiter
}

// New returns a service.
func New(o Options) (*Service, error) {
	local := o.External.Hostname() == "localhost" || o.External.Hostname() == "127.0.0.1"
	switch {
	case o.External.Scheme != "https" && (o.External.Scheme != "http" || !local):
		return nil,
			errors.New(
				"must be https://HOST, or http://localhost:PORT for a trial: browsers store no session cookie for " +
					"other URLs")
	case o.External.Host == "" || strings.Trim(o.External.Path, "/") != "" || o.External.RawQuery != "" ||
		o.External.User != nil:
		return nil, errors.New("must contain only a scheme and a host, such as https://fleet.example.org")
	case o.OIDC == nil && !o.TokenForm:
		return nil, errors.New("users cannot sign in: configure an OIDC issuer, or enable signing in with tokens")
	}
	return &Service{Options: o, tries: newTries(), exchanges: newTries()}, nil
}

// session is the session cookie's content: a token to review, or the name and groups from the provider's ID token.
type session struct {
	Token  string   `json:"token,omitempty"`
	Name   string   `json:"name,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

type userKey struct{}

// UserFrom returns an authenticated request's user.
func UserFrom(ctx context.Context) (User, bool) {
	found, ok := ctx.Value(userKey{}).(User)
	return found, ok
}

// Handler returns a handler that passes only requests from authenticated users to page.
func (s *Service) Handler(page http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathSignIn, s.showForm)
	mux.HandleFunc("POST "+pathToken, s.signInWithToken)
	mux.HandleFunc("GET "+pathOIDC, s.redirectToProvider)
	mux.HandleFunc("GET "+pathCallback, s.handleCallback)
	mux.HandleFunc("POST "+pathSignOut, s.signOut)
	mux.Handle("/", s.protect(page))
	// Refuse requests from other sites that change data.
	checked := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// This check prevents DNS rebinding, with which another site could read the responses.
		if !strings.EqualFold(r.Host, s.External.Host) {
			http.Error(w, "this page is at "+s.External.String(), http.StatusMisdirectedRequest)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "same-origin")
		w.Header().Set("X-Frame-Options", "DENY")
		w.Header().Set("Cache-Control", "no-store")
		checked.ServeHTTP(w, r)
	})
}

func (s *Service) protect(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, err := s.authenticate(r)
		switch {
		case err == nil:
			// After the timeout, the browser reconnects and the user is authenticated again.
			ctx, cancel := context.WithTimeout(r.Context(), s.Recheck)
			defer cancel()
			page.ServeHTTP(w, r.WithContext(context.WithValue(ctx, userKey{}, found)))
		case errors.Is(err, errTries):
			s.refuse(w, http.StatusTooManyRequests, "Too many attempts", "Try again in a few seconds.")
		case errors.Is(err, errSignedOut), errors.Is(err, errNotAccepted), errors.Is(err, errSealed):
			s.requestSignIn(w, r)
		default:
			s.Log.Error(err, "failed to authenticate a request")
			s.refuse(w, http.StatusServiceUnavailable, "Cannot check your session",
				"The API server did not respond. You are still signed in; try again in a moment.")
		}
	})
}

// requestSignIn redirects browsers to the sign-in form, and responds with 401 to programs.
func (s *Service) requestSignIn(w http.ResponseWriter, r *http.Request) {
	ended := readCookie(r, sessionCookie) != ""
	removeCookie(w, r, sessionCookie)
	if r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("WWW-Authenticate", `Bearer realm="kyma-pull"`)
		http.Error(w, "sign in first", http.StatusUnauthorized)
		return
	}
	query := url.Values{}
	if next := landingPath(r.URL.RequestURI()); next != "/" {
		query.Set("next", next)
	}
	if ended {
		query.Set("ended", "true")
	}
	address := url.URL{Path: pathSignIn, RawQuery: query.Encode()}
	http.Redirect(w, r, address.String(), http.StatusSeeOther)
}

var (
	errSignedOut = errors.New("not signed in")
	errTries     = errors.New("too many attempts")
)

// authenticate returns a request's user, from the Authorization header or the session cookie.
func (s *Service) authenticate(r *http.Request) (User, error) {
	if header := r.Header.Get("Authorization"); header != "" && s.TokenForm {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "bearer") {
			return User{}, errNotAccepted
		}
		return s.authenticateNewToken(r.Context(), strings.TrimSpace(token), clientAddressOf(r, s.Proxies))
	}
	text := readCookie(r, sessionCookie)
	if text == "" {
		return User{}, errSignedOut
	}
	var found session
	if err := s.Keys.open(sessionCookie, text, &found); err != nil {
		return User{}, err
	}
	if found.Token == "" {
		return User{Info: &user.DefaultInfo{Name: found.Name, Groups: found.Groups}, Session: true}, nil
	}
	named, err := s.authenticateToken(r.Context(), found.Token)
	named.Session = true
	return named, err
}

// authenticateNewToken is like authenticateToken, but limits a client's failed attempts. Tokens with a cached review
// are exempt.
func (s *Service) authenticateNewToken(ctx context.Context, token string, from clientAddress) (found User, err error) {
	if s.Tokens != nil && s.Tokens.cachedUser(token) != nil {
		return s.authenticateToken(ctx, token)
	}
	end, allowed := s.tries.startAttempt(from, s.Now())
	if !allowed {
		return User{}, errTries
	}
	defer func() { end(s.Now(), err != nil) }()
	return s.authenticateToken(ctx, token)
}

func (s *Service) authenticateToken(ctx context.Context, token string) (User, error) {
	if s.Tokens == nil {
		return User{}, errNotAccepted
	}
	found, err := s.Tokens.review(ctx, token)
	if err != nil {
		return User{}, err
	}
	if !s.Tokens.canAct() {
		token = ""
	}
	return User{Info: found, Token: token}, nil
}

func (s *Service) signInWithToken(w http.ResponseWriter, r *http.Request) {
	if !s.TokenForm {
		http.NotFound(w, r)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		s.refuse(w, http.StatusBadRequest, "Cannot read the form", "The form is larger than the largest valid token.")
		return
	}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	_, err := s.authenticateNewToken(r.Context(), token, clientAddressOf(r, s.Proxies))
	switch {
	case errors.Is(err, errTries):
		s.refuse(w, http.StatusTooManyRequests, "Too many attempts", "Try again in a few seconds.")
		return
	case errors.Is(err, errNotAccepted):
		s.Log.Info("refused a token", "from", r.RemoteAddr)
		s.form(w, http.StatusUnauthorized, formData{Refused: true, Next: landingPath(r.PostForm.Get("next"))})
		return
	case err != nil:
		s.Log.Error(err, "failed to sign a user in")
		s.refuse(w, http.StatusServiceUnavailable, "Cannot sign in",
			"The API server did not respond. Try again in a moment.")
		return
	}
	s.startSession(w, r, session{Token: token}, s.Now().Add(s.Lifetime), landingPath(r.PostForm.Get("next")))
}

// startSession sets the session cookie and redirects the user to the path in next.
func (s *Service) startSession(w http.ResponseWriter, r *http.Request, begun session, expires time.Time, next string) {
	text, err := s.Keys.seal(sessionCookie, begun, expires)
	if err == nil {
		err = writeCookie(w, r, sessionCookie, text, expires, s.Now())
	}
	if err != nil {
		s.Log.Error(err, "failed to start a session")
		s.refuse(w, http.StatusInternalServerError, "Cannot sign in", err.Error())
		return
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (s *Service) redirectToProvider(w http.ResponseWriter, r *http.Request) {
	if s.OIDC == nil {
		http.NotFound(w, r)
		return
	}
	f := signInFlow{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Landing: landingPath(r.URL.Query().Get("next")),
	}
	address, err := s.OIDC.startURL(r.Context(), f)
	if err != nil {
		s.Log.Error(err, "failed to redirect a user to the OIDC provider")
		s.refuse(w, http.StatusServiceUnavailable, "Cannot sign in",
			"The OIDC provider did not respond. Try again in a moment.")
		return
	}
	expires := s.Now().Add(flowLifetime)
	text, err := s.Keys.seal(flowCookie, f, expires)
	if err == nil {
		err = writeCookie(w, r, flowCookie, text, expires, s.Now())
	}
	if err != nil {
		s.Log.Error(err, "failed to start a sign-in")
		s.refuse(w, http.StatusInternalServerError, "Cannot sign in", "See the log of the UI for the cause.")
		return
	}
	http.Redirect(w, r, address, http.StatusFound)
}

// handleCallback handles the redirect from the OIDC provider and starts a session.
func (s *Service) handleCallback(w http.ResponseWriter, r *http.Request) {
	if s.OIDC == nil {
		http.NotFound(w, r)
		return
	}
	var f signInFlow
	// If the cookie is missing, another browser may have started the sign-in (login CSRF).
	if err := s.Keys.open(flowCookie, readCookie(r, flowCookie), &f); err != nil {
		s.refuse(w, http.StatusBadRequest, "Cannot sign in",
			"This browser did not start a sign-in, or the sign-in took too long. Start again.")
		return
	}
	removeCookie(w, r, flowCookie)
	came, err := s.exchange(r, f)
	if errors.Is(err, errTries) {
		s.refuse(w, http.StatusTooManyRequests, "Too many attempts", "Try again in a few seconds.")
		return
	}
	if err != nil {
		s.Log.Error(err, "failed to sign a user in with OIDC", "from", r.RemoteAddr)
		s.refuse(w, http.StatusUnauthorized, "Cannot sign in",
			"The OIDC provider's response was rejected. See the log of the UI for the cause.")
		return
	}
	begun := session{Token: came.token}
	if came.user != nil {
		begun = session{Name: came.user.Name, Groups: came.user.Groups}
	}
	expires := s.Now().Add(s.Lifetime)
	if came.expires.Before(expires) {
		expires = came.expires
	}
	s.startSession(w, r, begun, expires, f.Landing)
}

func (s *Service) exchange(r *http.Request, f signInFlow) (came signInResult, err error) {
	code, err := s.OIDC.responseCode(f, r)
	if err != nil {
		return signInResult{}, err // no request was sent to the provider, so the attempt does not count
	}
	end, allowed := s.exchanges.startAttempt(clientAddressOf(r, s.Proxies), s.Now())
	if !allowed {
		return signInResult{}, errTries
	}
	defer func() { end(s.Now(), err != nil) }()
	if came, err = s.OIDC.exchangeCode(r.Context(), f, code); err == nil && came.user == nil {
		_, err = s.authenticateToken(r.Context(), came.token)
	}
	return came, err
}

func (s *Service) signOut(w http.ResponseWriter, r *http.Request) {
	removeCookie(w, r, sessionCookie)
	removeCookie(w, r, flowCookie)
	http.Redirect(w, r, pathSignIn, http.StatusSeeOther)
}
