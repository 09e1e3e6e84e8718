package ui

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
)

const rightsCacheTime = 30 * time.Second

// Local restricts access to a UI that runs on a workstation with the permissions of one kubeconfig.
//
// Each request needs a secret, because other users' programs on the machine can connect. The printed URL contains the
// secret, and the response stores it in a cookie. Requests for other hosts are refused.
type Local struct {
	token  string
	hosts  []string
	cookie string
	viewer *Viewer
	next   http.Handler

	// mu guards once. once is the secret in a URL that works only once, or empty.
	mu   sync.Mutex
	once string
}

// NewLocal returns a handler that passes requests from the viewer to next. address is HOST:PORT.
func NewLocal(next http.Handler, address string, viewer *Viewer) (*Local, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	// Browsers send a cookie to all ports of a host, so the name of the cookie contains the port.
	l := &Local{
		token: rand.Text(), hosts: []string{address}, cookie: "kyma-pull-ui-" + port, viewer: viewer, next: next,
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		l.hosts = []string{
			address,
			net.JoinHostPort("localhost", port),
			net.JoinHostPort("127.0.0.1", port),
			net.JoinHostPort("::1", port),
		}
	}
	return l, nil
}

// Address returns the URL to open.
func (l *Local) Address() string { return l.address(l.token) }

// AddressOnce returns a URL that works only once. It is meant for a browser's command line, which all users of the
// machine can read.
func (l *Local) AddressOnce() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.once = rand.Text()
	return l.address(l.once)
}

func (l *Local) address(token string) string { return "http://" + l.hosts[0] + "/?token=" + token }

// isValidToken reports whether a request's token is valid. The token from AddressOnce is valid only once.
func (l *Local) isValidToken(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.once != "" && equal(token, l.once) {
		l.once = ""
		return true
	}
	return l.isSecret(token)
}

func (l *Local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(l.hosts, r.Host) {
		http.Error(w, "unknown host: open the printed URL", http.StatusMisdirectedRequest)
		return
	}
	if token := r.URL.Query().Get("token"); token != "" && r.Method == http.MethodGet && r.URL.Path == "/" {
		if !l.isValidToken(token) {
			l.refuse(w)
			return
		}
		http.SetCookie(w, &http.Cookie{
			Name: l.cookie, Value: l.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	cookie, err := r.Cookie(l.cookie)
	if err != nil || !l.isSecret(cookie.Value) {
		l.refuse(w)
		return
	}
	l.next.ServeHTTP(w, r.WithContext(WithViewer(r.Context(), l.viewer)))
}

func (l *Local) isSecret(token string) bool { return equal(token, l.token) }

func equal(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

func (l *Local) refuse(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, "missing token: open the URL that kcp-publisher ui printed", http.StatusForbidden)
}

// OwnRights returns a viewer with the permissions of the client api.
func OwnRights(api client.Client, name string) *Viewer {
	rights := &ownRights{api: api, known: map[authorizationv1.ResourceAttributes]answer{}}
	return &Viewer{
		Name:   name,
		MaySee: func(context.Context, string) (bool, error) { return true, nil },
		// The registry decides whether the viewer may read reports, because the UI uses the viewer's own registry
		// credentials.
		MissingForReport: func(context.Context, client.ObjectKey) (string, error) { return "", nil },
		MayChangeRollout: func(ctx context.Context, rollout client.ObjectKey) (bool, error) {
			return rights.mayPatch(ctx, v1alpha1.GroupVersion.Group, "rollouts", rollout)
		},
		ActOnRollout: func(
			ctx context.Context, rollout client.ObjectKey, action actions.Rollout,
		) (actions.Result, error) {
			return actions.Apply(ctx, api, rollout, name, action)
		},
		MayAct: func(ctx context.Context, kyma client.ObjectKey) (bool, error) {
			return rights.mayPatch(ctx, v1beta2.GroupVersion.Group, "kymas", kyma)
		},
		Act: func(ctx context.Context, kyma client.ObjectKey, action actions.Runtime) (actions.Result, error) {
			return actions.Apply(ctx, api, kyma, name, action)
		},
	}
}

type ownRights struct {
	api client.Client
	// mu guards known.
	mu    sync.Mutex
	known map[authorizationv1.ResourceAttributes]answer
}

type answer struct {
	may   bool
	until time.Time
}

// mayPatch reports whether the client is permitted to patch an object. An empty name in the key means all objects in
// the namespace.
func (o *ownRights) mayPatch(ctx context.Context, group, resource string, key client.ObjectKey) (bool, error) {
	patch := authorizationv1.ResourceAttributes{
		Namespace: key.Namespace,
		Name:      key.Name,
		Verb:      "patch",
		Group:     group,
		Resource:  resource,
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if a, asked := o.known[patch]; asked && time.Now().Before(a.until) {
		return a.may, nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &patch},
	}
	if err := o.api.Create(ctx, review); err != nil {
		return false, fmt.Errorf("check the permission to patch %s %s: %w", resource, key, err)
	}
	if len(o.known) > 1000 {
		clear(o.known)
	}
	o.known[patch] = answer{review.Status.Allowed, time.Now().Add(rightsCacheTime)}
	return review.Status.Allowed, nil
}
