package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
)

const (
	// loginMargin is the time between the renewal of a login and its expiry. If a quarter of the login's validity is
	// shorter, the login is renewed when this quarter is left.
	loginMargin = 5 * time.Minute
	// helperValidity is how long the output of a credential helper is cached. Credential helpers do not return an
	// expiry.
	helperValidity = time.Minute
	// loginRetry is the time after which a failed login is tried again.
	loginRetry = 5 * time.Second
	// maxLogins limits the hosts in memory, because component descriptors can contain any number of hosts.
	maxLogins = 1000
)

// Login contains the credentials for a registry until they expire.
type Login struct {
	Username, Password string
	// Expires is the end of the credentials' validity. Zero means that they do not expire.
	Expires time.Time
}

// LoginFunc logs in to the registry at HOST or HOST:PORT, for example with the identity of a cloud provider. It returns
// nil if it has no login method for the host.
type LoginFunc func(ctx context.Context, host string) (*Login, error)

// logins caches credentials by host until shortly before they expire. Only one caller at a time logs in to a host.
type logins struct {
	now func() time.Time

	mu     sync.Mutex // guards byHost
	byHost map[string]*cachedLogin
}

// cachedLogin is a host's login. The channel turn is a lock for the other fields. A goroutine sends a value to lock it,
// and receives the value to unlock it.
type cachedLogin struct {
	turn       chan struct{}
	credential auth.Credential
	err        error
	// renew is the time of the next login, and expires is the expiry of the credential, or zero.
	renew, expires time.Time
}

func newLogins() *logins { return &logins{now: time.Now, byHost: map[string]*cachedLogin{}} }

func (l *logins) of(host string) *cachedLogin {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := l.byHost[host]; found != nil {
		return found
	}
	if len(l.byHost) >= maxLogins {
		clear(l.byHost)
	}
	created := &cachedLogin{turn: make(chan struct{}, 1)}
	l.byHost[host] = created
	return created
}

// get returns the cached credential for a host, or calls the function fetch for a new one. The function returns a zero
// expiry for a credential that does not expire. If it fails, get returns the previous credential until it expires.
func (l *logins) get(
	ctx context.Context, host string, fetch func(context.Context) (found auth.Credential, expires time.Time, err error),
) (auth.Credential, error) {
	login := l.of(host)
	select {
	case login.turn <- struct{}{}:
		defer func() { <-login.turn }()
	case <-ctx.Done():
		return auth.EmptyCredential, ctx.Err()
	}
	now := l.now()
	if now.Before(login.renew) {
		return login.credential, login.err
	}
	found, expires, err := fetch(ctx)
	switch {
	case err == nil:
		*login = cachedLogin{turn: login.turn, credential: found, renew: renewalOf(now, expires), expires: expires}
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return auth.EmptyCredential, err // only this caller was canceled, so do not cache the error for others
	case login.err == nil && now.Before(login.expires):
		login.renew = now.Add(loginRetry)
	default:
		*login = cachedLogin{turn: login.turn, err: err, renew: now.Add(loginRetry)}
	}
	return login.credential, login.err
}

// renewalOf returns the time when credentials must be renewed.
func renewalOf(now, expires time.Time) time.Time {
	if expires.IsZero() {
		return now.Add(helperValidity)
	}
	return expires.Add(-min(loginMargin, expires.Sub(now)/4))
}
