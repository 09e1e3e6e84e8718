package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
)

func TestLoginIsRenewedBeforeItExpires(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	failure := errors.New("refused")
	for name, c := range map[string]struct {
		// lifetime is the validity of each login, or zero without an expiry.
		lifetime, at time.Duration
		fails        bool
		want         string
		err          error
	}{
		"12 hours, shortly before the margin":   {12 * time.Hour, 12*time.Hour - 6*time.Minute, false, "1", nil},
		"12 hours, within the margin":           {12 * time.Hour, 12*time.Hour - 4*time.Minute, false, "2", nil},
		"8 minutes, three quarters are over":    {8 * time.Minute, 6*time.Minute + time.Second, false, "2", nil},
		"8 minutes, half are over":              {8 * time.Minute, 4 * time.Minute, false, "1", nil},
		"failed renewal keeps the valid login":  {12 * time.Hour, 12*time.Hour - 4*time.Minute, true, "1", nil},
		"failed renewal of an expired login":    {12 * time.Hour, 12*time.Hour + time.Second, true, "", failure},
		"without an expiry, in the same minute": {0, 59 * time.Second, false, "1", nil},
		"without an expiry, a minute later":     {0, 61 * time.Second, false, "2", nil},
		"expired when it was issued":            {-time.Second, time.Second, false, "2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			now, count, fails := start, 0, false
			cached := newLogins()
			cached.now = func() time.Time { return now }
			get := func() (auth.Credential, error) {
				return cached.get(t.Context(), "h", func(context.Context) (auth.Credential, time.Time, error) {
					if fails {
						return auth.EmptyCredential, time.Time{}, failure
					}
					count++
					expires := now.Add(c.lifetime)
					if c.lifetime == 0 {
						expires = time.Time{}
					}
					return auth.Credential{Password: fmt.Sprint(count)}, expires, nil
				})
			}
			if got, err := get(); err != nil || got.Password != "1" {
				t.Fatalf("first login: got %v, %v", got, err)
			}
			now, fails = start.Add(c.at), c.fails
			if got, err := get(); !errors.Is(err, c.err) || got.Password != c.want {
				t.Errorf("got %q, %v, want %q, %v", got.Password, err, c.want, c.err)
			}
		})
	}
}

func TestFailedLoginIsRetriedAfterAPause(t *testing.T) {
	now, count := time.Unix(1_700_000_000, 0), 0
	cached := newLogins()
	cached.now = func() time.Time { return now }
	get := func(ctx context.Context) error {
		_, err := cached.get(ctx, "h", func(ctx context.Context) (auth.Credential, time.Time, error) {
			if count++; ctx.Err() != nil {
				return auth.EmptyCredential, time.Time{}, ctx.Err()
			}
			return auth.EmptyCredential, time.Time{}, errors.New("refused")
		})
		return err
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_ = get(canceled)
	count = 0
	for range 3 {
		if get(t.Context()) == nil {
			t.Error("got no error, want the cached error")
		}
	}
	if count != 1 {
		t.Errorf("got %d logins within the pause, want one, also after a canceled caller", count)
	}
	now = now.Add(loginRetry)
	if _ = get(t.Context()); count != 2 {
		t.Errorf("got %d logins after the pause, want two", count)
	}
}

func TestConcurrentCallersLogInToAHostOnce(t *testing.T) {
	cached, count := newLogins(), atomic.Int32{}
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			_, err := cached.get(t.Context(), "h", func(context.Context) (auth.Credential, time.Time, error) {
				count.Add(1)
				time.Sleep(10 * time.Millisecond)
				return auth.Credential{Password: "a"}, time.Now().Add(time.Hour), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if count.Load() != 1 {
		t.Errorf("got %d logins, want one", count.Load())
	}
	for i := range 3 * maxLogins {
		cached.of(fmt.Sprint(i))
	}
	if len(cached.byHost) > maxLogins {
		t.Errorf("the cache has %d hosts, want at most %d", len(cached.byHost), maxLogins)
	}
}

// Amazon ECR returns status 403 and not 401 for an expired password.
//
// Source: Amazon ECR user guide, "Troubleshooting errors with Docker commands": HTTP 403 errors.
func TestChangedPasswordReplacesThePreviousOne(t *testing.T) {
	var current atomic.Pointer[string]
	set := func(password string) { current.Store(&password) }
	set("first")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch _, password, given := r.BasicAuth(); {
		case !given:
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
		case password != *current.Load():
			w.WriteHeader(http.StatusForbidden)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	registries, err := NewRegistries(Access{
		NoRetry: true, Login: func(context.Context, string) (*Login, error) {
			return &Login{Username: "AWS", Password: *current.Load(), Expires: time.Now().Add(-time.Minute)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	repository, err := registries.Repository(host + "/fleet")
	if err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"first", "second"} {
		set(password)
		if _, err := Head(t.Context(), repository, "latest"); !errors.Is(err, ErrNotFound) {
			t.Errorf("with the %s password: got %v, want not found", password, err)
		}
	}
}
