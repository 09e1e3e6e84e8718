package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"slices"
)

// Local guards pages that are served on a workstation with the rights of one person's kubeconfig.
//
// Other people's programs on the same machine reach the address, so a request has to bring a secret: once in the address that is printed, then as a
// cookie. Pages of other sites reach it too by names that they let resolve to 127.0.0.1, so only the host that is served counts.
type Local struct {
	token  string
	hosts  []string
	cookie string
	viewer *Viewer
	next   http.Handler
}

// NewLocal guards next, which is served at address HOST:PORT for the viewer.
func NewLocal(next http.Handler, address string, viewer *Viewer) (*Local, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	// Cookies are the same for all ports of a host: the name tells several pages apart.
	l := &Local{token: rand.Text(), hosts: []string{address}, cookie: "kyma-pull-ui-" + port, viewer: viewer, next: next}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		l.hosts = []string{address, net.JoinHostPort("localhost", port), net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	}
	return l, nil
}

// Address is what to open.
func (l *Local) Address() string { return "http://" + l.hosts[0] + "/?token=" + l.token }

func (l *Local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(l.hosts, r.Host) {
		http.Error(w, "this host is not served here: open the address that was printed", http.StatusMisdirectedRequest)
		return
	}
	if given := r.URL.Query().Get("token"); given != "" && r.Method == http.MethodGet && r.URL.Path == "/" {
		if !l.right(given) {
			l.refuse(w)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: l.cookie, Value: l.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	cookie, err := r.Cookie(l.cookie)
	if err != nil || !l.right(cookie.Value) {
		l.refuse(w)
		return
	}
	l.next.ServeHTTP(w, r.WithContext(WithViewer(r.Context(), l.viewer)))
}

func (l *Local) right(given string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(l.token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

func (l *Local) refuse(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, "open the address that kcp-publisher ui printed: it has a token that this one lacks", http.StatusForbidden)
}
