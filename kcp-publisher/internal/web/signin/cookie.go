package signin

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// sessionCookie is the name of the session cookie. Because of the prefix __Host-, browsers accept the cookie only
	// over HTTPS, for exactly this host and all of its paths.
	//
	// Source: RFC 6265bis, section 4.1.3.2.
	sessionCookie = "__Host-kyma-pull-session"
	flowCookie    = "__Host-kyma-pull-sign-in"
	// cookiePart is the maximum size of one cookie in bytes. Browsers store at most 4096 bytes per cookie. An ID token
	// with many groups is longer, so a long value is split into several cookies.
	cookiePart = 3800
	maxParts   = 5
)

// writeCookie sets a cookie and splits a long value into parts. It removes the remaining parts of an earlier, longer
// cookie.
func writeCookie(w http.ResponseWriter, r *http.Request, name, value string, expires time.Time, now time.Time) error {
	if len(value) > cookiePart*maxParts {
		return fmt.Errorf(
			"the session needs %d bytes of cookies, must be at most %d: configure the provider to send fewer groups",
			len(value), cookiePart*maxParts)
	}
	for part := range maxParts {
		piece := value[min(len(value), part*cookiePart):min(len(value), (part+1)*cookiePart)]
		if piece == "" {
			expireCookie(w, r, partName(name, part))
			continue
		}
		http.SetCookie(w, &http.Cookie{
			Name: partName(name, part), Value: piece, Path: "/", Secure: true, HttpOnly: true,
			SameSite: http.SameSiteLaxMode,
			MaxAge:   max(1, int(expires.Sub(now).Seconds())),
		})
	}
	return nil
}

// readCookie joins the parts of a cookie. It returns "" if the cookie is missing.
func readCookie(r *http.Request, name string) string {
	var value strings.Builder
	for part := range maxParts {
		cookie, err := r.Cookie(partName(name, part))
		if err != nil {
			break
		}
		value.WriteString(cookie.Value)
	}
	return value.String()
}

func removeCookie(w http.ResponseWriter, r *http.Request, name string) {
	for part := range maxParts {
		expireCookie(w, r, partName(name, part))
	}
}

func expireCookie(w http.ResponseWriter, r *http.Request, name string) {
	if _, err := r.Cookie(name); err == nil {
		http.SetCookie(w, &http.Cookie{
			Name: name, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: -1,
		})
	}
}

func partName(name string, part int) string {
	if part == 0 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, part)
}
