package signin_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/access"
)

func TestUsersSeeOnlyObjectsTheyCanRead(t *testing.T) {
	w := startWorld(t)
	t.Run("a token shows the fleet only to users who can list its objects", func(t *testing.T) {
		tokensShowTheFleet(t, w)
	})
	t.Run("revoked permissions take effect", func(t *testing.T) { rightsAreTakenAway(t, w) })
	t.Run("an invalid token ends the session", func(t *testing.T) { tokenEnds(t, w) })
	t.Run("without an API server, no data is shown and sessions are kept", func(t *testing.T) {
		withoutAPIServer(t, w)
	})
	t.Run("a token with the page's audience is accepted", func(t *testing.T) { ownAudience(t, w) })
	t.Run("users and groups match the API server's OIDC mapping", func(t *testing.T) { providersUsers(t, w) })
	t.Run("rollouts are changed with the user's permissions", func(t *testing.T) { steering(t, w) })
	t.Run("attacks are refused", func(t *testing.T) { attacks(t, w) })
	t.Run("the page's account has only the permissions it needs", func(t *testing.T) { ownRights(t, w) })
}

func ownRights(t *testing.T, w *world) {
	page, err := client.New(w.page, client.Options{Scheme: w.scheme, Mapper: w.admin.RESTMapper()})
	require.NoError(t, err)
	kyma := &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "read-by-the-page"},
		Spec:       v1beta2.KymaSpec{Channel: "regular"},
	}
	w.create(t, kyma)
	key := client.ObjectKeyFromObject(kyma)
	require.NoError(t, page.Get(t.Context(), key, kyma))
	require.NoError(t, page.List(t.Context(), &v1beta2.KymaList{}, client.InNamespace(namespace)))
	for what, err := range map[string]error{
		"patch a Kyma": page.Patch(t.Context(), kyma,
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))),
		"delete a Kyma": page.Delete(t.Context(), kyma),
		"get a Kyma in another namespace": page.Get(t.Context(), client.ObjectKey{Namespace: "other", Name: kyma.Name},
			kyma),
		"get a Rollout":                    page.Get(t.Context(), key, &v1alpha1.Rollout{}),
		"list Secrets":                     page.List(t.Context(), &corev1.SecretList{}, client.InNamespace(namespace)),
		"list the Kymas in all namespaces": page.List(t.Context(), &v1beta2.KymaList{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("the page's account can %s: got error %v, want Forbidden", what, err)
		}
	}
}

func tokensShowTheFleet(t *testing.T, w *world) {
	s := w.serve(t, siteOptions{})
	ann, _ := w.account(t, "ann", "")
	bob, _ := w.account(t, "bob", "")
	eve, _ := w.account(t, "eve", "")
	w.bind(t, namespace, "viewer", accountOf("ann"))
	w.create(
		t,
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "kcp-publisher-ui-viewer"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
			},
		},
	)
	w.bind(t, "other", "viewer", accountOf("eve"))

	v := s.visitor(t)
	asked := v.get(t, "/runtimes/berlin?module=keda")
	asked.has(t, http.StatusOK, "Sign in to see the fleet", "Bearer token")
	if asked.query.Get("next") != "/runtimes/berlin?module=keda" {
		t.Errorf("the form does not contain the requested path: %s", asked)
	}
	v.signIn(t, "wrong").has(t, http.StatusUnauthorized, "rejected this token")
	v.signIn(t, ann).has(t, http.StatusOK, shown+" at /runtimes/berlin")
	v.get(t, "/rollouts").has(t, http.StatusOK, shown+" at /rollouts")

	another := w.serve(t, siteOptions{})
	v.site = another // browsers share cookies among all ports of a host
	v.get(t, "/").has(t, http.StatusOK, shown)

	for name, token := range map[string]string{"bob": bob, "eve": eve} {
		v := s.visitor(t)
		v.signIn(t, token).has(t, http.StatusForbidden, "system:serviceaccount:kcp-system:"+name, "Sign out",
			"kubectl auth can-i list kymas.operator.kyma-project.io --namespace kcp-system",
			"kubectl auth can-i list modulereleasemetas.operator.kyma-project.io --namespace kcp-system",
			"kubectl auth can-i list rollouts.fleet.kyma-project.io --namespace kcp-system")
	}
	stranger := s.visitor(t)
	stranger.get(t, "/", "Authorization", "Bearer "+ann).has(t, http.StatusOK, shown)
	stranger.get(t, "/", "Authorization", "Bearer "+bob).has(t, http.StatusForbidden)
	stranger.get(t, "/events", "Accept", "text/event-stream").has(t, http.StatusUnauthorized)

	v = s.visitor(t)
	v.signIn(t, ann)
	if out := v.ask(t, http.MethodPost, "/sign-out", nil, "Sec-Fetch-Site", "same-origin"); out.path != "/sign-in" {
		t.Errorf("signing out leads to %s, want /sign-in", out)
	}
	v.get(t, "/").has(t, http.StatusOK, "Sign in to see the fleet")

	brief := w.serve(t, siteOptions{lifetime: 2 * time.Second})
	v = brief.visitor(t)
	v.signIn(t, ann).has(t, http.StatusOK, shown)
	until(t, "the session ends", func() seenPage { return v.get(t, "/") }, func(s seenPage) bool {
		return s.path == "/sign-in"
	})
}

func rightsAreTakenAway(t *testing.T, w *world) {
	s := w.serve(t, siteOptions{})
	carl, _ := w.account(t, "carl", "")
	binding := w.bind(t, namespace, "viewer", accountOf("carl"))
	v := s.visitor(t)
	v.signIn(t, carl).has(t, http.StatusOK, shown)
	require.NoError(t, w.admin.Delete(t.Context(), binding))
	until(t, "the permission is revoked", func() seenPage { return v.get(t, "/") }, func(s seenPage) bool {
		return s.status == http.StatusForbidden
	})
	w.bind(t, namespace, "viewer", accountOf("carl"))
	until(t, "the permission is granted again", func() seenPage { return v.get(t, "/") }, func(s seenPage) bool {
		return s.status == http.StatusOK
	})
}

func tokenEnds(t *testing.T, w *world) {
	s := w.serve(t, siteOptions{})
	dora, holder := w.account(t, "dora", "")
	w.bind(t, namespace, "viewer", accountOf("dora"))
	v := s.visitor(t)
	v.signIn(t, dora).has(t, http.StatusOK, shown)
	require.NoError(t, w.admin.Delete(t.Context(), holder))
	until(t, "the token is rejected", func() seenPage { return v.get(t, "/rollouts") }, func(s seenPage) bool {
		return s.path == "/sign-in" && s.query.Get("next") == "/rollouts" &&
			strings.Contains(s.text, "Your session has ended")
	})
	if again := v.get(t, "/"); again.query.Get("ended") != "" {
		t.Errorf("the cookie was not removed: %s", again)
	}
}

func withoutAPIServer(t *testing.T, w *world) {
	s := w.serve(t, siteOptions{oidc: true})
	frank, _ := w.account(t, "frank", "")
	w.bind(t, namespace, "viewer", accountOf("frank"))
	byToken, byProvider := s.visitor(t), s.visitor(t)
	byToken.signIn(t, frank).has(t, http.StatusOK, shown)
	w.provider.as(map[string]any{"name": "frank"}, nil, nil)
	byProvider.get(t, "/sign-in/oidc").has(t, http.StatusForbidden, "idp:frank")

	nowhere := rest.CopyConfig(w.page)
	nowhere.Host = "https://127.0.0.1:1"
	alone := w.serve(t, siteOptions{api: nowhere, oidc: true})
	for _, v := range []*visitor{byToken, byProvider} {
		v.site = alone
		v.get(t, "/").has(t, http.StatusServiceUnavailable, "The API server did not respond")
		v.site = s
		if back := v.get(t, "/"); back.path != "/" {
			t.Errorf("the session has ended: %s", back)
		}
	}
	alone.visitor(t).signIn(t, frank).has(t, http.StatusServiceUnavailable, "did not respond")
}

func ownAudience(t *testing.T, w *world) {
	s := w.serve(t, siteOptions{audience: "kyma-pull-page"})
	w.bind(t, namespace, "viewer", accountOf("gina"))
	usual, _ := w.account(t, "gina", "")
	own, _ := w.account(t, "gina", "kyma-pull-page")
	s.visitor(t).signIn(t, usual).has(t, http.StatusUnauthorized, "not for the audience", "--audience kyma-pull-page")
	s.visitor(t).signIn(t, own).has(t, http.StatusOK, shown)
	w.serve(t, siteOptions{}).visitor(t).signIn(t, own).has(t, http.StatusUnauthorized)
}

func providersUsers(t *testing.T, w *world) {
	w.bind(t, namespace, "viewer", rbacv1.Subject{
		APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "idp:operators",
	})
	// The API server also trusts the provider, and maps the claims of a token as the UI does.
	for name, o := range map[string]siteOptions{"page maps the claims": {oidc: true, noTokens: true},
		"API server maps the claims": {oidc: true, noTokens: true, apiToken: true}} {
		t.Run(name, func(t *testing.T) {
			s := w.serve(t, o)
			w.provider.as(map[string]any{"name": "hal", "groups": []string{"operators", "system:masters"}}, nil, nil)
			v := s.visitor(t)
			v.get(t, "/rollouts").has(t, http.StatusOK, "Sign in with 127.0.0.1")
			until(
				t,
				"the provider is known to the API server",
				func() seenPage { return v.get(t, "/sign-in/oidc?next=/rollouts") },
				func(s seenPage) bool {
					return s.status == http.StatusOK && s.text == shown+" at /rollouts"
				},
			)
			w.provider.as(map[string]any{"name": "ida", "groups": []string{"others"}}, nil, nil)
			s.visitor(t).get(t, "/sign-in/oidc").has(t, http.StatusForbidden, "idp:ida")
			s.visitor(t).
				get(t, "/", "Authorization", "Bearer x").
				has(t, http.StatusOK, "Sign in to see the fleet")
				// the page does not accept tokens
			w.provider.as(map[string]any{"name": "hal", "groups": []string{"operators"}}, func(claims map[string]any) {
				claims["exp"] = time.Now().Add(10 * time.Second).Unix() // long enough to sign in on a busy machine
			}, nil)
			v = s.visitor(t)
			v.get(t, "/sign-in/oidc").has(t, http.StatusOK, shown)
			w.provider.as(nil, nil, nil)
			until(t, "the session ends with the ID token", func() seenPage { return v.get(t, "/") },
				func(s seenPage) bool { return s.path == "/sign-in" })
		})
	}
}

func steering(t *testing.T, w *world) {
	rollout := &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keda-2"},
		Spec: v1alpha1.RolloutSpec{
			Module: "keda", Channel: "regular", From: "1.0.0", To: "2.0.0", Course: v1alpha1.Course{
				Waves: []v1alpha1.Wave{{Name: "all", Count: new(int32(1))}},
			},
		},
	}
	w.create(t, rollout)
	key := client.ObjectKeyFromObject(rollout)
	users, acting := w.asking(t)
	viewer := func(name string) (func() (bool, error), func() error) {
		token, _ := w.account(t, name, "")
		act, err := acting.With(token)
		require.NoError(t, err)
		v := access.Viewer(
			name,
			users.AskFor(&user.DefaultInfo{Name: "system:serviceaccount:" + namespace + ":" + name, Groups: []string{
				"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated",
			}}),
			act,
		)
		return func() (bool, error) { return v.MayChangeRollout(t.Context(), key) },
			func() error {
				result, err := v.ActOnRollout(t.Context(), key, actions.Pause(true))
				return errors.Join(err, result.Unrecorded)
			}
	}
	w.bind(t, namespace, "viewer", accountOf("judy"))
	may, pause := viewer("judy")
	if yes, err := may(); yes || err != nil {
		t.Errorf("a viewer may steer: %t, error %v", yes, err)
	}
	require.ErrorContains(t, pause(), "forbidden", "the page must not lend rights to users")
	w.bind(t, namespace, "operator", accountOf("karl"))
	may, pause = viewer("karl")
	if yes, err := may(); !yes || err != nil {
		t.Errorf("an operator may steer: %t, error %v, want true", yes, err)
	}
	require.NoError(t, pause())
	require.NoError(t, w.admin.Get(t.Context(), key, rollout))
	if !rollout.Spec.Paused {
		t.Error("the rollout is not paused")
	}
	var events corev1.EventList
	require.NoError(t, w.admin.List(t.Context(), &events, client.InNamespace(namespace),
		client.MatchingFields{"involvedObject.name": rollout.Name}))
	require.Len(t, events.Items, 1, "only karl changed the rollout")
	require.Equal(t, "Paused", events.Items[0].Reason)
	require.True(t, strings.HasSuffix(events.Items[0].Message, ", by karl"), events.Items[0].Message)
	if v := access.Viewer("nobody", users.AskFor(&user.DefaultInfo{Name: "nobody"}), nil); v.MayChangeRollout != nil ||
		v.ActOnRollout != nil ||
		v.MayAct != nil ||
		v.Act != nil {
		t.Error("a user without a token can act")
	}
}

func (w *world) asking(t *testing.T) (*access.Users, *access.TokenClients) {
	t.Helper()
	api, err := kubernetes.NewForConfig(w.page)
	require.NoError(t, err)
	users, err := access.NewUsers(api.AuthorizationV1(), validity)
	require.NoError(t, err)
	acting, err := access.NewActing(w.page, client.Options{Scheme: w.scheme, Mapper: w.admin.RESTMapper()})
	require.NoError(t, err)
	return users, acting
}
