// Package access determines which objects a signed-in user of the web UI can see and change.
//
// The API server decides with SubjectAccessReviews, which are cached for a few seconds. If the API server does not
// respond, all requests are denied. Changes use the user's own token.
package access

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/ui"
)

const (
	// Validity is the time until a cached SubjectAccessReview expires. A revoked permission still applies for at most
	// this time.
	Validity      = 10 * time.Second
	reviewTimeout = 5 * time.Second
)

// Right is one permission in a namespace.
type Right struct {
	Verb, Group, Resource, Namespace string
	// Name selects one object, or all objects if it is empty.
	Name string
	// Subresource can be empty.
	Subresource string
}

// Command returns the kubectl command that checks the permission.
func (r Right) Command() string {
	resource := r.Resource + "." + r.Group
	if r.Name != "" {
		resource += "/" + r.Name
	}
	if r.Subresource != "" {
		resource += " --subresource " + r.Subresource
	}
	return fmt.Sprintf("kubectl auth can-i %s %s --namespace %s", r.Verb, resource, r.Namespace)
}

// viewRights returns the permissions that a user needs to see the fleet in a namespace.
func viewRights(namespace string) []Right {
	return []Right{
		{Verb: "list", Group: v1beta2.GroupVersion.Group, Resource: "kymas", Namespace: namespace},
		{Verb: "list", Group: v1beta2.GroupVersion.Group, Resource: "modulereleasemetas", Namespace: namespace},
		{Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "rollouts", Namespace: namespace},
	}
}

// readReports returns the permission to read a runtime's report. The subresource report does not exist in the API
// server: Roles use its name only for this permission, because reports are in the registry.
func readReports(kyma client.ObjectKey) Right {
	return Right{
		Verb:        "get",
		Group:       v1beta2.GroupVersion.Group,
		Resource:    "kymas",
		Namespace:   kyma.Namespace,
		Name:        kyma.Name,
		Subresource: "report",
	}
}

func rolloutRight(rollout client.ObjectKey) Right {
	return Right{
		Verb:      "patch",
		Group:     v1alpha1.GroupVersion.Group,
		Resource:  "rollouts",
		Namespace: rollout.Namespace,
		Name:      rollout.Name,
	}
}

func kymaRight(kyma client.ObjectKey) Right {
	return Right{
		Verb:      "patch",
		Group:     v1beta2.GroupVersion.Group,
		Resource:  "kymas",
		Namespace: kyma.Namespace,
		Name:      kyma.Name,
	}
}

// Ask reports whether a user has a permission. On an error, the result is false.
type Ask func(ctx context.Context, right Right) (bool, error)

// Missing returns the permissions that a user lacks.
func (ask Ask) Missing(ctx context.Context, rights []Right) ([]Right, error) {
	var missing []Right
	for _, right := range rights {
		allowed, err := ask(ctx, right)
		if err != nil {
			return nil, err
		}
		if !allowed {
			missing = append(missing, right)
		}
	}
	return missing, nil
}

// Users reviews users' permissions with the API server.
type Users struct{ authorizer authorizer.Authorizer }

// NewUsers returns Users that review permissions with the API server. validity is the maximum age of a cached review.
func NewUsers(api authorizationclient.AuthorizationV1Interface, validity time.Duration) (*Users, error) {
	delegating, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: api, AllowCacheTTL: validity, DenyCacheTTL: validity,
		WebhookRetryBackoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 2},
	}.New()
	if err != nil {
		return nil, err
	}
	return &Users{authorizer: delegating}, nil
}

// AskFor returns an Ask that reviews one user's permissions with the API server.
func (u *Users) AskFor(who user.Info) Ask {
	return func(ctx context.Context, right Right) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
		defer cancel()
		decision, _, err := u.authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: who, ResourceRequest: true, APIVersion: "*",
			Verb: right.Verb, APIGroup: right.Group, Resource: right.Resource, Namespace: right.Namespace,
			Name: right.Name, Subresource: right.Subresource,
		})
		if err != nil {
			return false,
				fmt.Errorf("check whether user %q can %s %s: %w", who.GetName(), right.Verb, right.Resource, err)
		}
		return decision == authorizer.DecisionAllow, nil
	}
}

// Viewer returns the viewer with this user name and permissions. Changes use act, a client with the viewer's own
// permissions. If act is nil, the viewer cannot change objects.
func Viewer(name string, ask Ask, act client.Client) *ui.Viewer {
	v := &ui.Viewer{Name: name, MaySee: func(ctx context.Context, namespace string) (bool, error) {
		missing, err := ask.Missing(ctx, viewRights(namespace))
		return err == nil && len(missing) == 0, err
	}}
	v.MissingForReport = func(ctx context.Context, kyma client.ObjectKey) (string, error) {
		right := readReports(kyma)
		if may, err := ask(ctx, right); may || err != nil {
			return "", err
		}
		return right.Command(), nil
	}
	if act != nil {
		v.MayChangeRollout = func(ctx context.Context, rollout client.ObjectKey) (bool, error) {
			return ask(ctx, rolloutRight(rollout))
		}
		v.ActOnRollout = func(
			ctx context.Context, rollout client.ObjectKey, action actions.Rollout,
		) (actions.Result, error) {
			return actions.Apply(ctx, act, rollout, name, action)
		}
		v.MayAct = func(ctx context.Context, kyma client.ObjectKey) (bool, error) { return ask(ctx, kymaRight(kyma)) }
		v.Act = func(ctx context.Context, kyma client.ObjectKey, action actions.Runtime) (actions.Result, error) {
			return actions.Apply(ctx, act, kyma, name, action)
		}
	}
	return v
}
