package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

type slowReviews struct {
	authenticationclient.TokenReviewInterface
	asked  chan struct{}
	answer chan struct{}
}

func (s *slowReviews) Create(
	_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions,
) (*authenticationv1.TokenReview, error) {
	s.asked <- struct{}{}
	<-s.answer
	return review, nil
}

func TestConcurrentSignInsWithInvalidTokensAreLimited(t *testing.T) {
	const tried = 200
	api := &slowReviews{asked: make(chan struct{}), answer: make(chan struct{})}
	now := time.Unix(1_000_000, 0)
	s := &Service{
		Options: Options{Tokens: NewTokens(api, "", time.Minute), TokenForm: true,
			Now: func() time.Time { return now }}, tries: newTries(),
	}
	stranger := clientAddress{peer: "192.0.2.1", client: "192.0.2.1"}
	results := make(chan error, tried)
	for n := range tried {
		go func() {
			_, err := s.authenticateNewToken(t.Context(), fmt.Sprint("wrong-", n), stranger)
			results <- err
		}()
	}
	asked := 0
	for range tried {
		select {
		case <-api.asked:
			asked++
		case err := <-results:
			if !errors.Is(err, errTries) {
				t.Fatal(err)
			}
		}
	}
	if asked != triesAtOnce {
		t.Errorf("got %d simultaneous token reviews, want %d", asked, triesAtOnce)
	}
	close(api.answer)
	for range asked {
		if err := <-results; !errors.Is(err, errNotAccepted) {
			t.Error(err)
		}
	}
	now = now.Add(time.Second)
	for range triesPerSecond {
		go func() { <-api.asked }()
		if _, err := s.authenticateNewToken(t.Context(), "wrong", stranger); !errors.Is(err, errNotAccepted) {
			t.Errorf("an attempt one second later: got %v, want errNotAccepted", err)
		}
	}
	if _, err := s.authenticateNewToken(t.Context(), "wrong", stranger); !errors.Is(err, errTries) {
		t.Errorf("an attempt over the limit: got %v, want errTries", err)
	}
}

func TestFailedAttemptsDoNotLockOutOtherClients(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	limits := newTries()
	attempt := func(client string, failed bool) bool {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.7:4711"
		r.Header.Set("X-Forwarded-For", client)
		end, allowed := limits.startAttempt(clientAddressOf(r, 1), now)
		if allowed {
			end(now, failed)
		}
		return allowed
	}
	locked := false
	for range 10 * 60 * 6 { // ten minutes, six a second
		now = now.Add(time.Second / 6)
		locked = !attempt("203.0.113.9, 198.51.100.1", true) || locked
		if !attempt("203.0.113.9, 198.51.100.2", false) {
			t.Fatal("another client behind the same proxy is locked out")
		}
	}
	if !locked {
		t.Error("the failed attempts of the client are not limited")
	}
}

func TestClientAddressBehindProxyIsTheForwardedAddress(t *testing.T) {
	for name, c := range map[string]struct {
		remote    string
		forwarded []string
		proxies   int
		want      clientAddress
	}{
		"direct connection": {"203.0.113.9:1", nil, 1, clientAddress{"203.0.113.9", "203.0.113.9"}},
		"direct connection with a forged header": {
			"203.0.113.9:1", []string{"198.51.100.1"}, 1, clientAddress{"203.0.113.9", "203.0.113.9"},
		},
		"client behind a proxy": {
			"10.0.0.7:1", []string{"198.51.100.1"}, 1, clientAddress{"10.0.0.7", "198.51.100.1"},
		},
		"client behind a proxy with forged entries": {
			"10.0.0.7:1", []string{"1.1.1.1", "2.2.2.2, 198.51.100.1"}, 1, clientAddress{"10.0.0.7", "198.51.100.1"},
		},
		"client behind a proxy without an address": {
			"10.0.0.7:1", []string{"unknown"}, 1, clientAddress{"10.0.0.7", "10.0.0.7"},
		},
		"client behind two proxies": {
			"10.0.0.7:1", []string{"1.1.1.1, 198.51.100.1", "10.0.0.9"}, 2, clientAddress{"10.0.0.7", "198.51.100.1"},
		},
		"one proxy where two are expected": {
			"10.0.0.7:1", []string{"198.51.100.1"}, 2, clientAddress{"10.0.0.7", "10.0.0.7"},
		},
		"header ignored without proxies": {"10.0.0.7:1", []string{"198.51.100.1"}, 0, clientAddress{"10.0.0.7", "10.0.0.7"}},
		"IPv6 address": {
			"[2001:db8:1:2:3::4]:1", nil, 1, clientAddress{"2001:db8:1:2::/64", "2001:db8:1:2::/64"},
		},
		"IPv4 address in IPv6 form": {"[::ffff:203.0.113.9]:1", nil, 1, clientAddress{"203.0.113.9", "203.0.113.9"}},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.remote
		for _, value := range c.forwarded {
			r.Header.Add("X-Forwarded-For", value)
		}
		if got := clientAddressOf(r, c.proxies); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
