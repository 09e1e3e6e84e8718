// Package ui serves the HTML pages of a fleet's web UI: the health of the fleet, runtimes, rollouts, module versions
// and images.
//
// Viewers with permission can change Rollouts and Kymas. Each action requires confirmation, uses the viewer's own
// permissions, and is recorded as an Event. The package does not authenticate users: the caller puts a Viewer into the
// context of each request.
//
// All text is untrusted, because runtimes report messages. The pages limit the length of text, and html/template
// escapes it. The browser can load only the embedded assets.
package ui

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
)

const (
	maxBodyBytes = 4 << 10
	maxQuery     = 2 << 10
	// maxStreams is the maximum number of open event streams. A page without a stream polls every 30 seconds.
	maxStreams = 256
)

// Options are the data sources of the pages.
type Options struct {
	Source *Source
	// Origins returns the verified origins of the modules in a runtime's published bundle. It is nil without a
	// registry.
	Origins func(ctx context.Context, kyma *v1beta2.Kyma) ([]bundle.Origin, error)
	// Chain returns the verified latest bundles of a runtime. It is nil without a registry.
	Chain func(ctx context.Context, kyma *v1beta2.Kyma) (fleet.Chain, error)
	// Report returns the verified latest report of a runtime. It is nil without a registry.
	Report func(ctx context.Context, kyma *v1beta2.Kyma) (bundle.Report, error)
	// Contents returns the images of the module versions that the runtimes use. It is nil without a registry.
	Contents func(ctx context.Context, runtimes []inventory.Runtime) (map[inventory.Module]inventory.Content, error)
	// RendersContents is true if the result of Contents includes the images in rendered objects.
	RendersContents bool
	// Events reads the Events about a Kyma with the permissions of the viewer in ctx. If it is nil, the pages do not
	// show Events.
	Events func(ctx context.Context, kyma *v1beta2.Kyma) ([]corev1.Event, error)
	// Trains reads the PromotionPolicies of a namespace with the permissions of the viewer in ctx. If it is nil, the
	// pages do not show trains.
	Trains func(ctx context.Context, namespace string) ([]v1alpha1.PromotionPolicy, error)
	Log    logr.Logger
	Now    func() time.Time
}

type pages struct {
	Options
	// streams contains one element for each open event stream.
	streams  chan struct{}
	known    originCache
	reports  reports
	contents imageCache
}

// Handler returns the handler for the pages. It refuses requests without a Viewer, and requests from other sites that
// change data.
func Handler(o Options) http.Handler {
	p := &pages{
		Options: o, streams: make(chan struct{}, maxStreams), known: newOriginCache(), reports: newReports(),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.authorize(p.overview))
	mux.HandleFunc("GET /runtimes/{id}", p.authorize(p.runtime))
	mux.HandleFunc("POST /runtimes/{id}", p.authorize(p.actOnRuntime))
	mux.HandleFunc("POST /runtimes", p.authorize(p.actOnSelection))
	mux.HandleFunc("GET /rollouts", p.authorize(p.rollouts))
	mux.HandleFunc("GET /rollouts/{name}", p.authorize(p.rollout))
	mux.HandleFunc("POST /rollouts/{name}", p.authorize(p.actOnRollout))
	mux.HandleFunc("GET /modules", p.authorize(p.modules))
	mux.HandleFunc("GET /images", p.authorize(p.images))
	mux.HandleFunc("GET /live", p.authorize(p.streamChanges))
	mux.HandleFunc("/", p.authorize(p.notFound))
	protected := http.NewCrossOriginProtection().Handler(mux)
	return secure(assets(protected))
}

// secure sets headers that prevent browsers from running, loading or framing content from other sites, and limits the
// size of requests.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set(
			"Content-Security-Policy",
			"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
				"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		)
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

// authorize calls serve if the request's viewer is permitted to see the fleet. Otherwise, it responds with an error.
func (p *pages) authorize(serve func(http.ResponseWriter, pageRequest)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		viewer := viewerFrom(r.Context())
		if viewer == nil || viewer.MaySee == nil {
			http.Error(w, "not signed in", http.StatusUnauthorized)
			return
		}
		page := pageRequest{Request: r, viewer: viewer}
		may, err := viewer.MaySee(r.Context(), p.Source.namespace)
		if err != nil {
			p.Log.Error(err, "failed to check whether a viewer may see the fleet", "viewer", viewer.Name)
			p.showMessage(w, page, http.StatusServiceUnavailable, "Cannot check your permissions",
				"The control plane did not respond. Try again in a moment.")
			return
		}
		if !may {
			p.showMessage(
				w,
				page,
				http.StatusForbidden,
				"You cannot see this fleet",
				"You need permission to list Kymas, Rollouts and ModuleReleaseMetas in namespace "+p.Source.namespace+
					" of the control plane.",
			)
			return
		}
		if page.fleet, page.next, err = p.Source.snapshot(); err != nil {
			w.Header().Set("Refresh", "2")
			if page.fleet, page.progress = p.Source.readingProgress(); page.fleet != nil && r.URL.Path == "/" {
				serve(w, page)
				return
			}
			p.showMessage(w, page, http.StatusServiceUnavailable, "Reading the control plane",
				"The fleet appears when the control plane has been read.")
			return
		}
		serve(w, page)
	}
}

func (p *pages) notFound(w http.ResponseWriter, r pageRequest) {
	p.showMessage(w, r, http.StatusNotFound, "Page not found", "The address is mistyped, or the object was deleted.")
}
