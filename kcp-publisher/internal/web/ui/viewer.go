package ui

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/rolloutactions"
)

// Viewer is whoever asks for a page, and what the API server lets them do. Who serves the pages puts one into the context of each request; a
// request without one is refused. All functions are called from many goroutines, and answer from a cache where they can: pages ask often.
type Viewer struct {
	// Name is shown on the pages: the user's name as the API server knows it, empty to show none.
	Name string
	// SignOut is the path of a form that is posted to sign out, empty where there is nothing to sign out of.
	SignOut string
	// MaySee reports whether the viewer may list Kymas, Rollouts and ModuleReleaseMetas of the namespace. An error is shown as
	// "cannot be told now", never as yes.
	MaySee func(ctx context.Context, namespace string) (bool, error)
	// MaySteer reports whether the viewer may patch the Rollout. Nil says no to all.
	MaySteer func(ctx context.Context, rollout client.ObjectKey) (bool, error)
	// Steer changes the Rollout with the viewer's own rights and returns what to tell. It is called only after MaySteer said yes.
	Steer func(ctx context.Context, rollout client.ObjectKey, change rolloutactions.Change) (string, error)
}

type viewerKey struct{}

// WithViewer returns a context for a request of the viewer.
func WithViewer(ctx context.Context, v *Viewer) context.Context {
	return context.WithValue(ctx, viewerKey{}, v)
}

// viewerOf returns who asks, nil where nobody said who it is.
func viewerOf(ctx context.Context) *Viewer {
	v, _ := ctx.Value(viewerKey{}).(*Viewer)
	return v
}
