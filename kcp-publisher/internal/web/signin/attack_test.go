package signin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func attacks(t *testing.T, w *world) {
	s := w.serve(t, siteOptions{oidc: true})
	mia, _ := w.account(t, "mia", "")
	w.bind(t, namespace, "viewer", accountOf("mia"))
	t.Run("cross-site requests are refused", func(t *testing.T) {
		v := s.visitor(t)
		v.signIn(t, mia).has(t, http.StatusOK, shown)
		for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
			{"Origin", "https://evil.example"}, {"Origin", "null"}} {
			v.ask(t, http.MethodPost, "/sign-out", nil, headers...).has(t, http.StatusForbidden)
			v.ask(t, http.MethodPost, "/rollouts/keda-2/pause", nil, headers...).has(t, http.StatusForbidden)
			v.ask(t, http.MethodPost, "/sign-in/token", url.Values{"token": {mia}}, headers...).
				has(t, http.StatusForbidden)
		}
		v.get(t, "/").has(t, http.StatusOK, shown)
	})
	t.Run("another host name is refused", func(t *testing.T) {
		v := s.visitor(t)
		v.get(t, "/", "Host", "evil.example", "Authorization", "Bearer "+mia).has(t, http.StatusMisdirectedRequest)
	})
	t.Run("no redirect to another site after signing in", func(t *testing.T) {
		v := s.visitor(t)
		in := v.ask(t, http.MethodPost, "/sign-in/token", url.Values{"token": {mia}, "next": {"//evil.example/x"}})
		in.has(t, http.StatusOK, shown+" at /")
		w.provider.as(map[string]any{"name": "mia"}, nil, nil)
		if in := s.visitor(t).get(t, "/sign-in/oidc?next=https://evil.example/x"); in.path != "/" {
			t.Errorf("signing in leads to %s, want /", in)
		}
	})
	t.Run("the form cannot be framed and runs no scripts", func(t *testing.T) {
		in := s.visitor(t).get(t, "/sign-in?next="+url.QueryEscape(`/"><script>alert(1)</script>`))
		policy := in.headers.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") ||
			strings.Contains(in.text, "<script") ||
			in.headers.Get("Cache-Control") != "no-store" || in.headers.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("got a form with headers %v: %s", in.headers, in)
		}
	})
	t.Run("a cookie sealed with another key is refused", func(t *testing.T) {
		other := w.serve(t, siteOptions{key: strings.Repeat("o", 64)})
		v := other.visitor(t)
		v.signIn(t, mia).has(t, http.StatusOK, shown)
		v.site = s
		v.get(t, "/").has(t, http.StatusOK, "Your session has ended")
	})
	t.Run("invalid forms are refused", func(t *testing.T) {
		s.visitor(t).signIn(t, strings.Repeat("x", 1<<20)).has(t, http.StatusBadRequest)
		s.visitor(t).signIn(t, "two words").has(t, http.StatusUnauthorized)
	})
	t.Run("failed tokens are limited", func(t *testing.T) { triedTokens(t, w, mia) })
	t.Run("failed codes are limited", func(t *testing.T) { triedCodes(t, w) })
	t.Run("forged provider responses are refused", func(t *testing.T) { forgedAnswers(t, w, s) })
	t.Run("no secrets are logged", func(t *testing.T) {
		log := s.log.String()
		for _, secret := range []string{mia, clientSecret, "hunter2", "code=", strings.Split(mia, ".")[1]} {
			if strings.Contains(log, secret) {
				t.Errorf("the log contains secret %q: %s", secret, log)
			}
		}
		if !strings.Contains(log, "refused a token") {
			t.Errorf("the log contains nothing about refused tokens: %s", log)
		}
	})
}

func triedTokens(t *testing.T, w *world, good string) {
	s := w.serve(t, siteOptions{})
	v := s.visitor(t)
	v.signIn(t, good).has(t, http.StatusOK, shown)
	stranger, refused := s.visitor(t), 0
	for range 60 {
		switch in := stranger.signIn(t, "wrong"+rand.Text()); in.status {
		case http.StatusTooManyRequests:
			refused++
		case http.StatusUnauthorized:
		default:
			t.Fatalf("a wrong token returned %s", in)
		}
	}
	if refused == 0 {
		t.Error("60 simultaneous attempts are not limited")
	}
	v.get(t, "/").has(t, http.StatusOK, shown) // the attack does not affect an existing session
}

func triedCodes(t *testing.T, w *world) {
	s := w.serve(t, siteOptions{oidc: true})
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	refused := 0
	for range 60 {
		v := s.visitor(t)
		v.CheckRedirect = stay
		left, err := url.Parse(v.get(t, "/sign-in/oidc").headers.Get("Location"))
		require.NoError(t, err)
		switch in := v.get(t,
			"/sign-in/callback?"+
				url.Values{"code": {"wrong"}, "state": {left.Query().Get("state")}}.Encode()); in.status {
		case http.StatusTooManyRequests:
			refused++
		case http.StatusUnauthorized:
		default:
			t.Fatalf("a wrong code returned %s", in)
		}
	}
	if refused == 0 {
		t.Error("60 attempts with wrong codes are not limited")
	}
}

func forgedAnswers(t *testing.T, w *world, s *site) {
	another, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		forge  func(map[string]any)
		signer *ecdsa.PrivateKey
	}{
		"token with another sign-in's nonce": {func(claims map[string]any) { claims["nonce"] = "another" }, nil},
		"token without a nonce":              {func(claims map[string]any) { delete(claims, "nonce") }, nil},
		"token for another client":           {func(claims map[string]any) { claims["aud"] = "another" }, nil},
		"token from a different issuer": {
			func(claims map[string]any) { claims["iss"] = "https://evil.example" }, nil,
		},
		"expired token": {
			func(claims map[string]any) { claims["exp"] = time.Now().Add(-time.Hour).Unix() }, nil,
		},
		"token signed with a different key": {nil, another},
		"token with an empty user name":     {func(claims map[string]any) { claims["name"] = "" }, nil},
	} {
		w.provider.as(map[string]any{"name": "mia"}, c.forge, c.signer)
		if in := s.visitor(t).get(t, "/sign-in/oidc"); in.status != http.StatusUnauthorized {
			t.Errorf("%s: got %s, want status 401", name, in)
		}
	}
	w.provider.as(map[string]any{"name": "mia"}, nil, nil)
	v := s.visitor(t)
	v.get(t, "/sign-in/callback?code=x&state=y").has(t, http.StatusBadRequest, "This browser did not start a sign-in")

	// The victim's browser receives the response to the attacker's own sign-in.
	v.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/sign-in/callback" {
			return http.ErrUseLastResponse
		}
		return nil
	}
	answered := v.get(t, "/sign-in/oidc").headers.Get("Location")
	back, err := url.Parse(answered)
	require.NoError(t, err)
	victim := s.visitor(t)
	victim.get(t, back.RequestURI()).has(t, http.StatusBadRequest)
	victim.CheckRedirect = v.CheckRedirect
	victim.get(t, "/sign-in/oidc")
	victim.CheckRedirect = nil
	victim.get(t, back.RequestURI()).has(t, http.StatusUnauthorized)

	// A sign-in can be completed only once.
	v.CheckRedirect = nil
	v.get(t, back.RequestURI()+"&iss=https://evil.example").has(t, http.StatusUnauthorized)
	v.get(t, back.RequestURI()).has(t, http.StatusBadRequest)

	w.provider.setDown(true)
	defer w.provider.setDown(false)
	fresh := w.serve(t, siteOptions{oidc: true})
	fresh.visitor(t).get(t, "/sign-in/oidc").has(t, http.StatusServiceUnavailable, "The OIDC provider did not respond")
}
