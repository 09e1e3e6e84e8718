package ui

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
)

// Viewer is the user of a request, with the permissions that the API server grants. All functions must be safe for
// concurrent use and should cache results.
type Viewer struct {
	// Name is the user's name at the API server, or empty.
	Name string
	// SignOut is the path of the POST request that signs out, or empty without a session.
	SignOut string
	// MaySee reports whether the viewer is permitted to list Kymas, Rollouts and ModuleReleaseMetas in the namespace.
	// If it returns an error, the viewer cannot see the fleet.
	MaySee func(ctx context.Context, namespace string) (bool, error)
	// MissingForReport returns an empty string if the viewer is permitted to read the signed report of the Kyma's
	// runtime. Otherwise, it returns the kubectl command that checks this permission. If it is nil, viewers cannot read
	// reports.
	MissingForReport func(ctx context.Context, kyma client.ObjectKey) (string, error)
	// MayChangeRollout reports whether the viewer is permitted to patch the Rollout. If it is nil, viewers cannot
	// change Rollouts.
	MayChangeRollout func(ctx context.Context, rollout client.ObjectKey) (bool, error)
	// ActOnRollout applies an action to the Rollout with the viewer's own permissions. Callers must check MayChangeRollout
	// first.
	ActOnRollout func(ctx context.Context, rollout client.ObjectKey, action actions.Rollout) (actions.Result, error)
	// MayAct reports whether the viewer is permitted to patch the Kyma, or all Kymas in the namespace if the key's name
	// is empty. If it is nil, viewers cannot change Kymas.
	MayAct func(ctx context.Context, kyma client.ObjectKey) (bool, error)
	// Act applies an action to the Kyma with the viewer's own permissions. Callers check MayAct first.
	Act func(ctx context.Context, kyma client.ObjectKey, action actions.Runtime) (actions.Result, error)
}

type viewerKey struct{}

// WithViewer returns a context that contains the viewer.
func WithViewer(ctx context.Context, v *Viewer) context.Context {
	return context.WithValue(ctx, viewerKey{}, v)
}

func viewerFrom(ctx context.Context) *Viewer {
	v, _ := ctx.Value(viewerKey{}).(*Viewer)
	return v
}
