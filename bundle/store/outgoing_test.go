package store

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// clientRules returns the client options that the programs use, by purpose.
func clientRules(host string) map[string]ClientOptions {
	return map[string]ClientOptions{
		"Git":              {Hosts: []string{host}, Redirects: SameHostRedirects},
		"Helm repository":  {Hosts: []string{host}, Redirects: RedirectsTo(host), Retry: true},
		"Event receiver":   {Hosts: []string{host}},
		"identity service": {Hosts: []string{host}, EncryptedOnly: true},
	}
}

func hostOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	at, err := url.Parse(server.URL)
	must(t, err)
	return at.Host
}

func TestEveryClientLimitsRedirectsAndAddresses(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	server := httptest.NewTLSServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		if target := r.URL.Query().Get("to"); target != "" {
			http.Redirect(to, r, target, http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	host := hostOf(t, server)
	for name, options := range clientRules(host) {
		options.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig //nolint:forcetypeassert // httptest
		options.Timeout = 10 * time.Second
		client := NewClient(options)
		for what, target := range map[string]string{
			"redirect to another host":           server.URL + "?to=" + url.QueryEscape(other.URL),
			"redirect to plain HTTP":             server.URL + "?to=" + url.QueryEscape("http://"+host+"/"),
			"redirect to a metadata service":     server.URL + "?to=" + url.QueryEscape("https://169.254.169.254/latest"),
			"metadata service in a response":     "https://169.254.169.254/latest/meta-data",
			"AWS metadata service in a response": "https://[fd00:ec2::254]/latest/meta-data",
			"local address in a response":        strings.Replace(other.URL, "127.0.0.1", "127.0.0.2", 1),
		} {
			t.Run(name+": "+what, func(t *testing.T) {
				response, err := client.Get(target)
				if err == nil {
					_ = response.Body.Close()
				}
				var refused *RedirectError
				if !errors.As(err, &refused) {
					t.Errorf("got error %v, want a *RedirectError", err)
				}
			})
		}
		t.Run(name+": the configured host", func(t *testing.T) {
			response, err := client.Get(server.URL)
			must(t, err)
			must(t, response.Body.Close())
		})
	}
	if elsewhere > 0 {
		t.Errorf("the other server received %d requests, want none", elsewhere)
	}
}

func TestClientWithRetryFollowsRetryAfter(t *testing.T) {
	var times []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) {
		if times = append(times, time.Now()); len(times) == 1 {
			to.Header().Set("Retry-After", "1")
			to.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	response, err := NewClient(ClientOptions{Hosts: []string{hostOf(t, server)}, Retry: true}).Get(server.URL)
	must(t, err)
	must(t, response.Body.Close())
	if len(times) != 2 || times[1].Sub(times[0]) < time.Second {
		t.Errorf("got requests at %v, want the second one after 1s", times)
	}
}
