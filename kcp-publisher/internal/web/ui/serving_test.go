package ui

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func TestPagesSetContentSecurityPolicy(t *testing.T) {
	s := serve(t, sampleFleet(3, true), nil)
	for _, path := range []string{"/", "/assets/page.css", "/live?" + strings.Repeat("a", maxQuery+1), "/nowhere"} {
		_, _, header := s.get(t, path)
		if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") ||
			!strings.Contains(policy, "frame-ancestors 'none'") ||
			strings.Contains(policy, "unsafe") {
			t.Errorf("%s: got Content-Security-Policy %q", path, policy)
		}
		if header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: got headers %v", path, header)
		}
	}
	_, page, header := s.get(t, "/")
	for _, never := range []string{" style=", "<style", "onclick", "javascript:"} {
		if strings.Contains(page, never) {
			t.Errorf("the page contains %q, which its policy forbids", never)
		}
	}
	if status, body, _ := s.get(t, "/", "If-None-Match", header.Get("ETag")); status != http.StatusNotModified ||
		body != "" {
		t.Errorf("an unchanged page is sent again: got status %d", status)
	}
	if status, _, _ := s.get(t, "/assets/"); status != http.StatusNotFound {
		t.Errorf("folder of assets: got status %d", status)
	}
}

func TestLocalUIRequiresTheTokenFromItsURL(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, viewerFrom(r.Context()).Name)
	})
	local, err := NewLocal(page, "127.0.0.1:8123", &Viewer{Name: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(address, host string, cookies ...*http.Cookie) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		request.Host = host
		for _, c := range cookies {
			request.AddCookie(c)
		}
		recorder := httptest.NewRecorder()
		local.ServeHTTP(recorder, request)
		return recorder
	}
	if got := ask("/", "127.0.0.1:8123"); got.Code != http.StatusForbidden {
		t.Errorf("without the token: got status %d", got.Code)
	}
	if got := ask("/?token=guessed", "127.0.0.1:8123"); got.Code != http.StatusForbidden ||
		len(got.Result().Cookies()) != 0 {
		t.Errorf("with a wrong token: got status %d", got.Code)
	}
	signed := ask(strings.TrimPrefix(local.Address(), "http://127.0.0.1:8123"), "127.0.0.1:8123")
	cookies := signed.Result().Cookies()
	if signed.Code != http.StatusSeeOther || signed.Header().Get("Location") != "/" || len(cookies) != 1 ||
		!cookies[0].HttpOnly ||
		cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("with the token: got status %d, headers %v", signed.Code, signed.Header())
	}
	for _, host := range []string{"127.0.0.1:8123", "localhost:8123", "[::1]:8123"} {
		if got := ask("/", host, cookies...); got.Code != http.StatusOK || got.Body.String() != "ada" {
			t.Errorf("host %s with the cookie: got status %d: %s", host, got.Code, got.Body)
		}
	}
	once := strings.TrimPrefix(local.AddressOnce(), "http://127.0.0.1:8123")
	for _, want := range []int{http.StatusSeeOther, http.StatusForbidden} {
		if got := ask(once, "127.0.0.1:8123"); got.Code != want {
			t.Errorf("with the one-time address: got status %d, want %d", got.Code, want)
		}
	}
	for _, host := range []string{"evil.example:8123", "127.0.0.1", "127.0.0.1:8124"} {
		if got := ask("/", host, cookies...); got.Code != http.StatusMisdirectedRequest {
			t.Errorf("host %s: got status %d", host, got.Code)
		}
	}
}

func TestUIRespondsBeforeAllKymasAreRead(t *testing.T) {
	s := serve(t, sampleFleet(100, false), nil)
	s.source.current = nil // as before the control plane was first read
	if status, body, header := s.get(t, "/"); status != http.StatusServiceUnavailable || header.Get("Refresh") == "" ||
		strings.Contains(body, "r-0000") {
		t.Errorf("before the first read: got status %d\n%s", status, body)
	}
	first := sampleFleet(100, false)
	for i := range first.Runtimes {
		if r := &first.Runtimes[i]; r.Health == fleet.Healthy {
			first.Runtimes[i] = fleet.Runtime{ID: r.ID, Health: fleet.Healthy, Reporting: true}
		}
	}
	first.Summary.Total = len(first.Runtimes)
	s.source.First(first, func() int64 { return 40 })
	status, body, header := s.get(t, "/")
	if status != http.StatusOK || header.Get("Refresh") != "2" ||
		!strings.Contains(body, "Reading 40 of 100 runtimes") ||
		!strings.Contains(body, "Module keda is Error") {
		t.Errorf("during the read: got status %d, headers %v\n%s", status, header, body)
	}
	if _, body, _ = s.get(t, "/?health=Healthy"); strings.Contains(body, "/0</span>") ||
		strings.Contains(body, "data-live") ||
		strings.Contains(body, "<form class") {
		t.Errorf("the page shows unknown data or filters:\n%s", body)
	}
	if status, _, _ := s.get(t, "/runtimes/r-00001"); status != http.StatusServiceUnavailable {
		t.Errorf("page of a runtime during the read: got status %d", status)
	}
	s.source.setFleet(sampleFleet(100, false))
	if status, body, header = s.get(t, "/"); status != http.StatusOK || header.Get("Refresh") != "" ||
		strings.Contains(body, "Reading ") {
		t.Errorf("after the read: got status %d, headers %v", status, header)
	}
}
