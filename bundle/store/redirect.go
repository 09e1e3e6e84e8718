package store

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// maxRedirects limits the redirects per request.
const maxRedirects = 3

// RedirectError means that a registry redirected a request to a host that is not allowed.
type RedirectError struct {
	// From is the registry's host, or empty if unknown. To is the redirect's host.
	From, To string
	// Detail is the reason why the redirect was refused.
	Detail string
}

func (e *RedirectError) Error() string {
	if e.From == "" {
		return fmt.Sprintf("connection to %s refused: %s", e.To, e.Detail)
	}
	return fmt.Sprintf("redirect from %s to %s refused: %s", e.From, e.To, e.Detail)
}

// checkRedirect allows redirects to the registry's own host and to blobHosts. If all hosts were allowed, a registry
// could make every runtime send requests to internal addresses.
func checkRedirect(next *url.URL, first *url.URL, hops int, blobHosts []string) error {
	refuse := func(format string, args ...any) error {
		return &RedirectError{From: first.Host, To: next.Host, Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case hops > maxRedirects:
		return refuse("more than %d redirects", maxRedirects)
	case first.Scheme == "https" && next.Scheme != "https":
		return refuse("the redirect changes the scheme from https to %s", next.Scheme)
	case next.User != nil:
		return refuse("the URL contains a user name")
	case !sameHost(first, next) && !namesHost(blobHosts, next):
		return refuse(
			"the host is neither the registry's own nor allowed: add --blob-host %s if the registry stores blobs there",
			bareHost(next))
	}
	return nil
}

func checkRedirects(blobHosts []string) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		for _, before := range via {
			if before.URL.Scheme == "https" && next.URL.Scheme != "https" {
				return checkRedirect(next.URL, before.URL, len(via), blobHosts)
			}
		}
		return checkRedirect(next.URL, via[0].URL, len(via), blobHosts)
	}
}

// SameHostRedirects allows redirects to the same host, but not from https to http. Use it as http.Client.CheckRedirect.
// The error is a *RedirectError.
func SameHostRedirects(next *http.Request, via []*http.Request) error {
	err := checkRedirects(nil)(next, via)
	var refused *RedirectError
	if errors.As(err, &refused) && !sameHost(via[0].URL, next.URL) {
		refused.Detail = "the redirect leads to a different host: configure that host's address instead"
	}
	return err
}

// RefuseRedirects refuses all redirects, which could send credentials to a different address. The error is a
// *RedirectError.
func RefuseRedirects(next *http.Request, via []*http.Request) error {
	return &RedirectError{
		From: via[0].URL.Host, To: next.URL.Host,
		Detail: "redirects are not followed: configure the target address of the redirect",
	}
}

// RedirectsTo allows redirects to the same host and to the given hosts, but not from https to http. Use it for requests
// without credentials. The error is a *RedirectError.
func RedirectsTo(hosts ...string) func(*http.Request, []*http.Request) error {
	return checkRedirects(hosts)
}

func sameHost(a, b *url.URL) bool {
	return strings.EqualFold(canonicalHost(a.Hostname()), canonicalHost(b.Hostname())) &&
		(port(a) == port(b) || isDefaultPort(a) && isDefaultPort(b))
}

// namesHost reports whether the list contains the URL's host. An entry without a port matches only the default port for
// the URL's scheme.
func namesHost(named []string, at *url.URL) bool {
	for _, name := range named {
		host, wanted := splitHost(name)
		if strings.EqualFold(canonicalHost(host), canonicalHost(at.Hostname())) &&
			(wanted == port(at) || wanted == "" && isDefaultPort(at)) {
			return true
		}
	}
	return false
}

func canonicalHost(host string) string { return strings.TrimSuffix(host, ".") }

func isDefaultPort(u *url.URL) bool { return port(u) == defaultPort(u.Scheme) }

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return defaultPort(u.Scheme)
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// bareHost returns HOST, or HOST:PORT if the port is not the scheme's default port.
func bareHost(u *url.URL) string {
	if isDefaultPort(u) {
		return strings.TrimSuffix(u.Host, ":"+u.Port())
	}
	return u.Host
}

// splitHost splits HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT.
func splitHost(text string) (host, port string) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), ""
	}
	return host, port
}

// CheckBlobHost returns an error if text is not a valid HOST or HOST:PORT for Access.BlobHosts.
func CheckBlobHost(text string) error {
	parsed, err := url.Parse("https://" + text)
	if err != nil || text == "" || parsed.Host != text || parsed.Hostname() == "" || parsed.User != nil ||
		strings.ContainsAny(text, "*, ") {
		return errors.New("must be HOST or HOST:PORT, without a scheme or path")
	}
	return nil
}
