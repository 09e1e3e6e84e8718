package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

const agentUser = "system:serviceaccount:" + home + ":" + guard.AgentName

// holder creates a ServiceAccount, binds the ClusterRole to it in kyma-system, and returns its client configuration.
func (w *world) holder(name, clusterRole string) *rest.Config {
	w.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	require.NoError(w, w.client.Create(w.Context(), account))
	require.NoError(w, w.client.Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}))
	token := &authenticationv1.TokenRequest{}
	require.NoError(w, w.client.SubResource("token").Create(w.Context(), account, token))
	config := rest.AnonymousClientConfig(w.config)
	config.BearerToken = token.Status.Token
	return config
}

func (w *world) connect(config *rest.Config, as string) client.Client {
	w.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate.UserName = as
	// Without this mapper, the client would send discovery requests, but the user does not have permission for them.
	c, err := client.New(config, client.Options{Scheme: w.scheme, Mapper: w.client.RESTMapper()})
	require.NoError(w, err)
	return c
}

func TestTenantRoleDoesNotGrantAgentPermissions(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	role, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "skr-agent", "policy", "tenant.yaml"))
	require.NoError(t, err)
	require.NoError(t, w.client.Create(ctx, w.object(string(role))))
	key := client.ObjectKey{Namespace: home, Name: "skr-agent-key"}
	require.NoError(t,
		w.client.Create(ctx,
			w.object("apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agent-key, namespace: kyma-system}")))
	require.NoError(t,
		w.client.Create(ctx,
			w.object("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: skr-agent, namespace: kyma-system}")))
	require.NoError(
		t,
		w.client.Create(
			ctx,
			w.object(
				"apiVersion: operator.kyma-project.io/v1beta2\nkind: Kyma\nmetadata: {name: default, namespace: "+
					"kyma-system}\nspec: {channel: regular}",
			),
		),
	)

	// In a real cluster, a controller aggregates this ClusterRole to `edit` and `admin`.
	editor := w.holder("editor", "system:aggregate-to-edit")
	tenant := w.holder("tenant", "skr-agent-tenant")
	ways := map[string]func(*rest.Config) error{
		"impersonating the agent": func(config *rest.Config) error {
			self := &authenticationv1.SelfSubjectReview{}
			if err := w.connect(config, agentUser).Create(ctx, self); err != nil {
				return err
			}
			require.Equal(t, agentUser, self.Status.UserInfo.Username)
			return nil
		},
		"reading the agent's key": func(config *rest.Config) error {
			return w.connect(config, "").Get(ctx, key, &corev1.Secret{})
		},
		"listing the agent's Secrets": func(config *rest.Config) error {
			return w.connect(config, "").List(ctx, &corev1.SecretList{}, client.InNamespace(home))
		},
		"requesting a token of the agent": func(config *rest.Config) error {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: guard.AgentName}}
			return w.connect(config, "").SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{})
		},
	}
	for name, try := range ways {
		t.Run("the role does not allow "+name, func(t *testing.T) {
			require.True(t, apierrors.IsForbidden(try(tenant)), "%v", try(tenant))
		})
		t.Run("edit allows "+name, func(t *testing.T) { require.NoError(t, try(editor)) })
	}

	t.Run("the role has no other permissions that lead to the agent's permissions", func(t *testing.T) {
		c := w.connect(tenant, "")
		workloads := []string{
			"/pods",
			"/replicationcontrollers",
			"/podtemplates",
			"apps/deployments",
			"apps/daemonsets",
			"apps/statefulsets",
			"apps/replicasets",
			"apps/controllerrevisions",
			"batch/jobs",
			"batch/cronjobs",
		}
		leading := map[string][]string{
			"impersonate": {"/users", "/groups", "/serviceaccounts", "/uids"},
			"watch":       {"/secrets"},
			"create": slices.Concat(
				workloads,
				[]string{"/pods/exec", "/pods/attach", "/pods/portforward", "/pods/proxy", "/secrets",
					"/serviceaccounts/token",
					"rbac.authorization.k8s.io/roles", "rbac.authorization.k8s.io/rolebindings"},
			),
			"get": {"/pods/exec", "/pods/attach", "/pods/portforward", "/pods/proxy"},
			"update": slices.Concat(workloads, []string{
				"/pods/ephemeralcontainers", "apps/deployments/status", "operator.kyma-project.io/manifests",
			}),
			"patch": slices.Concat(workloads, []string{
				"/pods/ephemeralcontainers", "apps/deployments/status", "operator.kyma-project.io/manifests",
			}),
			"bind":     {"rbac.authorization.k8s.io/roles", "rbac.authorization.k8s.io/clusterroles"},
			"escalate": {"rbac.authorization.k8s.io/roles", "rbac.authorization.k8s.io/clusterroles"},
			"change":   {"kyma-pull.dev/agents"},
		}
		for verb, resources := range leading {
			for _, resource := range resources {
				require.False(t, w.may(c, verb, resource), "the role must not allow %s %s", verb, resource)
			}
		}
	})
	t.Run("the role has the permissions that tenants need", func(t *testing.T) {
		c := w.connect(tenant, "")
		kyma := &v1beta2.Kyma{}
		require.NoError(t, c.Get(ctx, client.ObjectKey{Namespace: home, Name: "default"}, kyma))
		kyma.Spec.Channel = "fast"
		require.NoError(t, c.Update(ctx, kyma))
		require.NoError(t, c.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "mine"},
		}))
		for _, resource := range []string{"/pods/log", "/events", "apps/deployments",
			"operator.kyma-project.io/manifests"} {
			require.True(t, w.may(c, "get", resource), resource)
		}
	})
}

// may reports whether a client has a permission in kyma-system. resource is GROUP/RESOURCE[/SUBRESOURCE].
func (w *world) may(c client.Client, verb, resource string) bool {
	w.Helper()
	parts := append(strings.Split(resource, "/"), "")
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: home, Verb: verb, Group: parts[0], Resource: parts[1], Subresource: parts[2],
		}},
	}
	require.NoError(w, c.Create(w.Context(), review))
	return review.Status.Allowed
}

// The test impersonates the agent with the permissions from the agent's chart. No module ServiceAccounts exist.
func TestAgentGetsNoTokensForOtherAccounts(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.createChartFiles("rbac/agent.yaml", "rbac/self-upgrade.yaml", "policy/protection.yaml")
	agent := w.connect(w.config, agentUser)
	create := func(name string, change func(*corev1.Secret)) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}}
		change(secret)
		return agent.Create(ctx, secret, client.DryRunAll)
	}
	tokenOf := func(account string) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			s.Type = corev1.SecretTypeServiceAccountToken
			s.Annotations = map[string]string{corev1.ServiceAccountNameKey: account}
		}
	}
	isRefused := func(err error) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "skr-agent does not get tokens of ServiceAccounts")
	}
	w.eventually("the policy is enforced", func() bool { return isRefused(create("probe", tokenOf("other"))) })

	for _, name := range []string{"token", "skr-agent-state", "kyma-pull-content-slot-000"} {
		for _, account := range []string{"default", "other", "skr-agent"} {
			require.True(t, isRefused(create(name, tokenOf(account))), "%s: token of %s", name, account)
		}
		require.NoError(t, create(name, func(*corev1.Secret) {}))
	}
	require.True(t, isRefused(create("token", func(s *corev1.Secret) {
		s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "other"}
	})), "annotation without the type")
	existing := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "skr-agent-state"}}
	tokenOf("one")(existing)
	require.NoError(t, w.client.Create(ctx, existing))
	tokenOf("another")(existing)
	require.True(t, isRefused(agent.Update(ctx, existing)))

	w.createChartFiles("rbac/all-modules.yaml")
	w.eventually("an agent that can request the tokens of a module can also install them", func() bool {
		return create("token", tokenOf("other")) == nil
	})
	require.True(t, isRefused(create("token", tokenOf("skr-agent"))))
}

func (w *world) createChartFiles(files ...string) {
	w.Helper()
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "skr-agent", filepath.FromSlash(file)))
		require.NoError(w, err)
		for _, o := range objects(w.T, string(text)) {
			require.NoError(w, w.client.Create(w.Context(), o))
		}
	}
}

// Without this restriction, a client with the agent's token could change the Deployment so that it mounts other
// programs' Secrets.
func TestAgentChangesOnlyTheImageOfItsDeployment(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.createChartFiles("rbac/agent.yaml", "rbac/self-upgrade.yaml", "policy/protection.yaml")
	agent := w.connect(w.config, agentUser)
	deployment := w.object("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: skr-agent, namespace: kyma-system}\n" +
		"spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: " +
		"{serviceAccountName: skr-agent, containers: [{name: agent, image: old}]}}}")
	require.NoError(t, w.client.Create(ctx, deployment))
	try := func(patch string) (*unstructured.Unstructured, error) {
		changed := deployment.DeepCopy()
		return changed, agent.Patch(ctx, changed, client.RawPatch(types.StrategicMergePatchType, []byte(patch)),
			client.DryRunAll)
	}
	const otherAccount = `{"spec":{"template":{"spec":{"serviceAccountName":"other"}}}}`
	w.eventually("the policy is enforced", func() bool {
		_, err := try(otherAccount)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "skr-agent-accounts")
	})
	inPod := func(fields string) string { return `{"spec":{"template":{"spec":` + fields + `}}}` }
	for patch, allowed := range map[string]bool{
		otherAccount: false,
		inPod(`{"serviceAccountName":null,"serviceAccount":"other"}`):                        false,
		inPod(`{"serviceAccountName":null,"serviceAccount":null}`):                           false,
		inPod(`{"volumes":[{"name":"a","secret":{"secretName":"mail"}}]}`):                   false,
		inPod(`{"imagePullSecrets":[{"name":"mail"}]}`):                                      false,
		inPod(`{"hostPID":true}`):                                                            false,
		inPod(`{"containers":[{"name":"agent","envFrom":[{"secretRef":{"name":"mail"}}]}]}`): false,
		inPod(`{"containers":[{"name":"more","image":"new"}]}`):                              false,
		inPod(`{"initContainers":[{"name":"more","image":"new"}]}`):                          false,
		`{"spec":{"template":{"metadata":{"annotations":{"inject":"secret"}}}}}`:             false,
		`{"spec":{"replicas":0}}`:                                                            false,
		inPod(`{"containers":[{"name":"agent","image":"new"}]}`):                             true,
		`{"metadata":{"annotations":{"kyma-pull.dev/proven-image":"agent@sha256:00"}}}`:      true,
		inPod(`{"serviceAccountName":"skr-agent","serviceAccount":"another"}`):               true,
	} {
		changed, err := try(patch)
		if !allowed {
			require.ErrorContains(t, err, "can change only the image of its Deployment", patch)
			continue
		}
		require.NoError(t, err, patch)
		account, _, _ := unstructured.NestedString(changed.Object, "spec", "template", "spec", "serviceAccountName")
		require.Equal(t, "skr-agent", account, patch)
	}

	w.createChartFiles("rbac/all-modules.yaml")
	w.eventually("an agent that can create Deployments can also change the Deployments of modules", func() bool {
		_, err := try(otherAccount)
		return err == nil
	})
}
