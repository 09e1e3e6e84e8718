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
	// MaySee reports whether the viewer may list Kymas, Rollouts and ModuleReleaseMetas of the namespace. If it returns
	// an error, the viewer sees nothing.
	MaySee func(ctx context.Context, namespace string) (bool, error)
	// MissingForReport returns an empty string if the viewer may read the signed report of the Kyma's runtime.
	// Otherwise, it returns the kubectl command that checks this permission. Nil allows no reports.
	MissingForReport func(ctx context.Context, kyma client.ObjectKey) (string, error)
	// MayChangeRollout reports whether the viewer may patch the Rollout. Nil allows no changes to Rollouts.
	MayChangeRollout func(ctx context.Context, rollout client.ObjectKey) (bool, error)
	// ActOnRollout applies an action to the Rollout with the viewer's own permissions. Callers must check MayChangeRollout
	// first.
	ActOnRollout func(ctx context.Context, rollout client.ObjectKey, action actions.Rollout) (actions.Result, error)
	// MayAct reports whether the viewer may patch the Kyma, or all Kymas of the namespace if the key has no name. Nil
	// allows no changes to Kymas.
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
