package access

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/signin"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/ui"
)

// maxEvents bounds how many Events of a Kyma are read.
const maxEvents = 100

// Gate stands between whoever signed in and the pages: those who may not see the fleet are told which rights they lack.
type Gate struct {
	Namespace string
	SignIn    *signin.Service
	Users     *Users
	Acting    *Acting
	Log       logr.Logger
}

// Handler returns the pages behind the gate and signing in.
func (g *Gate) Handler(pages http.Handler) http.Handler {
	return g.SignIn.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := signin.UserOf(r.Context())
		if !ok {
			g.SignIn.Fail(w)
			return
		}
		ask := g.Users.Of(who)
		missing, err := ask.Missing(r.Context(), Seeing(g.Namespace))
		if err != nil {
			g.Log.Error(err, "cannot tell what a user may see")
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
				g.Log.Error(err, "cannot act for a user")
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
	g.SignIn.Forbid(w, who, fmt.Sprintf("The fleet in namespace %s is shown to those who may list all of it. You lack what these commands ask about:", g.Namespace), commands...)
}

type actKey struct{}

// Events returns the Events of a Kyma, read with the rights of whose request ctx is of; none without a token of theirs.
func Events(ctx context.Context, kyma *v1beta2.Kyma) ([]corev1.Event, error) {
	act, _ := ctx.Value(actKey{}).(client.Client)
	if act == nil {
		return nil, nil
	}
	return EventsBy(ctx, act, kyma)
}

// EventsBy returns the Events of a Kyma, read by a client.
func EventsBy(ctx context.Context, act client.Client, kyma *v1beta2.Kyma) ([]corev1.Event, error) {
	var found corev1.EventList
	err := act.List(ctx, &found, client.InNamespace(kyma.Namespace), client.Limit(maxEvents),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("involvedObject.uid", string(kyma.UID))})
	return found.Items, err
}
