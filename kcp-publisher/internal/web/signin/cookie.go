package signin

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// The prefix has browsers take a cookie only by HTTPS, for this host alone and all of it.
	//
	// Source: RFC 6265bis, section 4.1.3.2.
	sessionCookie = "__Host-kyma-pull-session"
	flowCookie    = "__Host-kyma-pull-sign-in"
	// Browsers keep 4096 bytes per cookie with its name and attributes. What is longer is parted: ID tokens name many groups.
	cookiePart = 3800
	maxParts   = 5
)

// write sets a cookie, in parts where it is long, and removes the parts of a longer one before.
func write(w http.ResponseWriter, r *http.Request, name, value string, expires time.Time, now time.Time) error {
	if len(value) > cookiePart*maxParts {
		return fmt.Errorf("what identifies you takes %d bytes of cookies, at most %d are sent: have the provider send fewer groups", len(value), cookiePart*maxParts)
	}
	for part := range maxParts {
		piece := value[min(len(value), part*cookiePart):min(len(value), (part+1)*cookiePart)]
		if piece == "" {
			forget(w, r, partName(name, part))
			continue
		}
		http.SetCookie(w, &http.Cookie{
			Name: partName(name, part), Value: piece, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
			MaxAge: max(1, int(expires.Sub(now).Seconds())),
		})
	}
	return nil
}

// read puts the parts of a cookie together; it is empty without one.
func read(r *http.Request, name string) string {
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

// remove has the browser forget a cookie with all its parts.
func remove(w http.ResponseWriter, r *http.Request, name string) {
	for part := range maxParts {
		forget(w, r, partName(name, part))
	}
}

func forget(w http.ResponseWriter, r *http.Request, name string) {
	if _, err := r.Cookie(name); err == nil {
		http.SetCookie(w, &http.Cookie{Name: name, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: -1})
	}
}

func partName(name string, part int) string {
	if part == 0 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, part)
}
