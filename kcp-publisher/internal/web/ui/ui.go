// Package ui is the web page of a fleet: the fleet as fleet.Look judges it goes in, pages for people come out. The first answers whether the fleet
// is well and if not, what to look at first; the others show one runtime, the rollouts as their waves fill, and which version of a module runs where.
//
// The page reads. What it changes is a rollout's pause and the approval of a wave, by whoever may patch that Rollout. It knows nobody: who
// serves it puts a Viewer into the context of each request, which says what may be seen and changed.
//
// Every text is hostile: runtimes report messages, owners choose labels. They are bounded and escaped by html/template, and the browser is told
// to run and load nothing but what is embedded here.
package ui

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

const (
	maxBodyBytes = 4 << 10
	maxQuery     = 2 << 10
	// maxStreams bounds the open streams of events; a page without one asks every half minute.
	maxStreams = 256
)

// Options are what the pages show.
type Options struct {
	Source *Source
	// Origins reads the bundle that was published to a runtime, verifies it, and returns where its modules come from. Nil without a registry.
	Origins func(ctx context.Context, kyma *v1beta2.Kyma) ([]bundle.Origin, error)
	// Chain reads the bundles that were published to a runtime last, and verifies them. Nil without a registry.
	Chain func(ctx context.Context, kyma *v1beta2.Kyma) (fleet.Chain, error)
	// Events returns the Events of a Kyma, read with the rights of whose request ctx is of. Nil shows none.
	Events func(ctx context.Context, kyma *v1beta2.Kyma) ([]corev1.Event, error)
	Log    logr.Logger
	Now    func() time.Time
}

// pages serves them.
type pages struct {
	Options
	// streams has a place for each stream that may be open.
	streams chan struct{}
	known   origins
}

// Handler returns the pages. It refuses a request without a Viewer, and changes that another site's page asks for.
func Handler(o Options) http.Handler {
	p := &pages{Options: o, streams: make(chan struct{}, maxStreams)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.seen(p.overview))
	mux.HandleFunc("GET /runtimes/{id}", p.seen(p.runtime))
	mux.HandleFunc("GET /rollouts", p.seen(p.rollouts))
	mux.HandleFunc("GET /rollouts/{name}", p.seen(p.rollout))
	mux.HandleFunc("POST /rollouts/{name}", p.seen(p.steer))
	mux.HandleFunc("GET /modules", p.seen(p.modules))
	mux.HandleFunc("GET /live", p.seen(p.live))
	mux.HandleFunc("/", p.seen(p.nowhere))
	protected := http.NewCrossOriginProtection().Handler(mux)
	return Secure(Assets(protected))
}

// Secure sets what keeps a browser from running, loading or showing anything of others, and bounds requests.
func Secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if len(r.URL.RawQuery) > maxQuery {
			http.Error(w, "the address is too long", http.StatusRequestURITooLong)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		next.ServeHTTP(w, r)
	})
}

// asked is a request of somebody who may see the fleet.
type asked struct {
	*http.Request
	viewer *Viewer
	fleet  *snapshot
	next   <-chan struct{}
	// reading is set while the fleet is not read as a whole.
	reading *reading
}

// seen lets a request through whose viewer may see the fleet's namespace.
func (p *pages) seen(serve func(http.ResponseWriter, asked)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		viewer := viewerOf(r.Context())
		if viewer == nil || viewer.MaySee == nil {
			http.Error(w, "nobody is signed in", http.StatusUnauthorized)
			return
		}
		page := asked{Request: r, viewer: viewer}
		may, err := viewer.MaySee(r.Context(), p.Source.namespace)
		if err != nil {
			p.Log.Error(err, "ask whether a viewer may see the fleet", "viewer", viewer.Name)
			p.tell(w, page, http.StatusServiceUnavailable, "Your rights cannot be checked now", "The control plane did not answer. Try again in a moment.")
			return
		}
		if !may {
			p.tell(w, page, http.StatusForbidden, "You may not see this fleet",
				"It takes the right to list Kymas, Rollouts and ModuleReleaseMetas in namespace "+p.Source.namespace+" of the control plane.")
			return
		}
		if page.fleet, page.next, err = p.Source.snapshot(); err != nil {
			w.Header().Set("Refresh", "2")
			if page.fleet, page.reading = p.Source.unfinished(); page.fleet != nil && r.URL.Path == "/" {
				serve(w, page)
				return
			}
			p.tell(w, page, http.StatusServiceUnavailable, "Reading the control plane", "This page shows the fleet as soon as it is read.")
			return
		}
		serve(w, page)
	}
}

func (p *pages) nowhere(w http.ResponseWriter, r asked) {
	p.tell(w, r, http.StatusNotFound, "There is no such page", "The address may have been mistyped, or what it named is gone.")
}
