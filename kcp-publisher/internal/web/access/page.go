package access

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/signin"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/ui"
)

const (
	maxEvents = 100
	maxTrains = 100
)

// Gate passes requests to the pages if the user has the permissions to see the fleet. To other users, it shows the
// missing permissions.
type Gate struct {
	Namespace string
	SignIn    *signin.Service
	Users     *Users
	Acting    *TokenClients
	Log       logr.Logger
}

// Handler returns a handler that serves the pages to signed-in users with the required permissions.
func (g *Gate) Handler(pages http.Handler) http.Handler {
	return g.SignIn.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := signin.UserFrom(r.Context())
		if !ok {
			g.SignIn.Fail(w)
			return
		}
		ask := g.Users.AskFor(who)
		missing, err := ask.Missing(r.Context(), viewRights(g.Namespace))
		if err != nil {
			g.Log.Error(err, "failed to check a user's permissions")
			g.SignIn.Fail(w)
			return
		}
		if len(missing) > 0 {
			g.forbid(w, who, missing)
			return
		}
		ctx := r.Context()
		var act client.Client
		if who.Token != "" {
			if act, err = g.Acting.With(who.Token); err != nil {
				g.Log.Error(err, "failed to create a client with a user's token")
				g.SignIn.Fail(w)
				return
			}
			ctx = context.WithValue(ctx, actKey{}, act)
		}
		viewer := Viewer(who.GetName(), ask, act)
		if who.Session {
			viewer.SignOut = signin.PathSignOut
		}
		pages.ServeHTTP(w, r.WithContext(ui.WithViewer(ctx, viewer)))
	}))
}

func (g *Gate) forbid(w http.ResponseWriter, who signin.User, missing []Right) {
	commands := make([]string, 0, len(missing))
	for _, right := range missing {
		commands = append(commands, right.Command())
	}
	g.SignIn.Forbid(
		w,
		who,
		fmt.Sprintf(
			"To see the fleet, you need permission to list its objects in namespace %s. These commands check the "+
				"permissions that you lack:",
			g.Namespace,
		),
		commands...)
}

type actKey struct{}

// Events reads a Kyma's Events with the permissions of the user in ctx. It returns nil if ctx does not contain a user
// token.
func Events(ctx context.Context, kyma *v1beta2.Kyma) ([]corev1.Event, error) {
	act, _ := ctx.Value(actKey{}).(client.Client)
	if act == nil {
		return nil, nil
	}
	return EventsBy(ctx, act, kyma)
}

// Trains reads a namespace's PromotionPolicies with the permissions of the user in ctx. It returns nil without a user
// token or permission.
func Trains(ctx context.Context, namespace string) ([]v1alpha1.PromotionPolicy, error) {
	act, _ := ctx.Value(actKey{}).(client.Client)
	if act == nil {
		return nil, nil
	}
	return TrainsBy(ctx, act, namespace)
}

// TrainsBy reads a namespace's PromotionPolicies with a client's permissions. It returns nil without permission or if
// the kind does not exist.
func TrainsBy(ctx context.Context, act client.Reader, namespace string) ([]v1alpha1.PromotionPolicy, error) {
	var found v1alpha1.PromotionPolicyList
	err := act.List(ctx, &found, client.InNamespace(namespace), client.Limit(maxTrains))
	if IsUnreadable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list PromotionPolicies: %w", err)
	}
	return found.Items, nil
}

// IsUnreadable reports whether a list request failed because the user lacks permission to read the kind, or because the
// kind does not exist.
func IsUnreadable(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
}

// EventsBy reads a Kyma's Events with a client's permissions.
func EventsBy(ctx context.Context, act client.Client, kyma *v1beta2.Kyma) ([]corev1.Event, error) {
	var found corev1.EventList
	err := act.List(ctx, &found, client.InNamespace(kyma.Namespace), client.Limit(maxEvents),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("involvedObject.uid", string(kyma.UID))})
	return found.Items, err
}
