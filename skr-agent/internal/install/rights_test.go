package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// allows grants permissions to the modules' ServiceAccount.
func (w *world) allows(name string, rules ...rbacv1.PolicyRule) {
	w.Helper()
	w.grants(name, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: home, Name: "modules"}, rules...)
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

func aConfigMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {key: value}\n---\n"
}

func TestModulesAreLimitedToTheirAccountsPermissions(t *testing.T) {
	accounts, err := guard.ParseAccounts([]string{"modules", "trusted="}, home)
	require.NoError(t, err)
	w := newWorldWith(t, Options{Accounts: accounts})
	ctx := t.Context()
	writing := []string{"get", "create", "patch", "delete"}
	w.allows("modules", rule("", "configmaps", writing...))
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: stolen, namespace: default}\n"

	t.Log("a module within the permissions of its account is installed")
	w.wants("fits", aConfigMap("fits"))
	w.state("fits", v1beta2.StateReady, "")

	t.Log("a module that needs more rights is not installed, and reports the missing permission")
	w.wants("greedy", aConfigMap("greedy")+secret)
	w.state("greedy", v1beta2.StateError,
		`system:serviceaccount:kyma-system:modules may not create secrets "stolen" in namespace default`)
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "greedy"))
	require.Empty(t, w.manifest("greedy").Status.Synced)
	w.wants("definer", sampleCRD+aConfigMap("definer"))
	w.state("definer", v1beta2.StateError,
		`may not create customresourcedefinitions.apiextensions.k8s.io "samples.example.kyma-project.io"`)
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "definer"))

	t.Log("a module that an operator trusts is installed with the agent's permissions")
	w.wants("trusted", aConfigMap("trusted")+secret)
	w.state("trusted", v1beta2.StateReady, "")

	t.Log("a module cannot grant permissions that its account does not have")
	w.allows("binders", rule(rbacv1.GroupName, "clusterrolebindings", writing...))
	w.wants(
		"climber",
		aConfigMap("climber")+
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: climber}\n"+
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\nsubjects: "+
			"[{kind: ServiceAccount, name: climber, namespace: kyma-system}]\n",
	)
	w.state("climber", v1beta2.StateError,
		"nothing was applied: system:serviceaccount:kyma-system:modules may not write ClusterRoleBinding climber")
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "climber"))

	t.Log("drift is corrected with the permissions of the account only")
	w.allows("modules", rule("", "configmaps", "get", "create", "delete"))
	require.NoError(t, w.client.Delete(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "fits"},
	}))
	w.state("fits", v1beta2.StateError, `cannot patch resource "configmaps"`)
	w.allows("modules", rule("", "configmaps", writing...))
	w.state("fits", v1beta2.StateReady, "")

	t.Log("a module is removed with the permissions of the account only")
	w.allows("modules", rule("", "configmaps", "get", "create", "patch"))
	w.remove("fits")
	w.state("fits", v1beta2.StateError,
		`User "system:serviceaccount:kyma-system:modules" cannot delete resource "configmaps"`)
	require.True(t, w.exists(&corev1.ConfigMap{}, home, "fits"))
	w.allows("modules", rule("", "configmaps", writing...))
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "fits") })
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "fits"))
}

func TestMissingWatchPermissionIsReported(t *testing.T) {
	w := newWorld(t)
	w.halt()
	agent := rbacv1.Subject{Kind: rbacv1.UserKind, Name: "system:serviceaccount:kyma-system:skr-agent"}
	w.grants("agent", agent, rule(v1beta2.GroupVersion.Group, "*", "get", "list", "watch", "patch"),
		rule("", "secrets", "get", "list"), rule("events.k8s.io", "events", "create", "patch"),
		rule("", "configmaps", "get", "create", "patch", "delete"))
	w.config = rest.CopyConfig(w.config)
	w.config.Impersonate.UserName = agent.Name
	w.start()
	w.wants("unseen", aConfigMap("unseen"))
	w.state("unseen", v1beta2.StateError, `watch ConfigMap for drift: configmaps is forbidden: User "`+agent.Name+
		`" cannot list resource "configmaps"`)
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "unseen"))
	w.grants("watching", agent, rule("", "configmaps", "list", "watch"))
	w.state("unseen", v1beta2.StateReady, "")
}

func TestModuleCannotChangeAgentSecrets(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	key := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "skr-agent-key"},
		StringData: map[string]string{"agent.key": "secret"},
	}
	require.NoError(t, w.client.Create(ctx, key))
	asDefaultCR := func(m *v1beta2.Manifest) {
		withDefaultCR(m)
		m.Spec.Resource.SetAPIVersion("v1")
		m.Spec.Resource.SetKind("Secret")
		m.Spec.Resource.SetName(key.Name)
		m.Annotations = map[string]string{
			v1beta2.AnnotationCustomStateCheck: `[{"jsonPath":"data.agent\\.key","value":"x","mappedState":"Ready"}]`,
		}
	}
	w.wants("attacker", aConfigMap("attacker"), asDefaultCR)
	w.state("attacker", v1beta2.StateError,
		"Secret kyma-system/skr-agent-key: the name is reserved for the agent")
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "attacker"))
	w.remove("attacker")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "attacker") })
	require.NoError(t, w.client.Get(ctx, client.ObjectKeyFromObject(key), key), "the agent's key must still exist")
}
