package signin

import (
	"net/url"
	"strings"
)

const maxLanding = 1 << 10

// landingPath returns the path to which a user returns after signing in, or "/" for an address outside the web UI.
// Browsers treat "//host", "/\host" and variants with tabs as addresses on other hosts.
func landingPath(requested string) string {
	if len(requested) > maxLanding || !strings.HasPrefix(requested, "/") ||
		strings.ContainsFunc(requested, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }) {
		return "/"
	}
	u, err := url.Parse(requested)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || strings.HasPrefix(requested, "//") {
		return "/"
	}
	if strings.HasPrefix(u.Path, "//") || u.Path == pathSignIn || strings.HasPrefix(u.Path, pathSignIn+"/") ||
		u.Path == pathSignOut {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}
