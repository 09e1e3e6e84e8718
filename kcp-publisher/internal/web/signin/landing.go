package signin

import (
	"net/url"
	"strings"
)

// maxLanding bounds the address that a user comes back to.
const maxLanding = 1 << 10

// landing returns where a user goes after signing in: a path of this page, whatever was asked for. Browsers take "//host", "/\host" and
// what they strip tabs from for addresses of others.
func landing(asked string) string {
	if len(asked) > maxLanding || !strings.HasPrefix(asked, "/") || strings.ContainsFunc(asked, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }) {
		return "/"
	}
	u, err := url.Parse(asked)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || strings.HasPrefix(asked, "//") {
		return "/"
	}
	if strings.HasPrefix(u.Path, "//") || u.Path == pathSignIn || strings.HasPrefix(u.Path, pathSignIn+"/") || u.Path == pathSignOut {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}
