package contentstore

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kyma-pull/kyma-pull/hack/lender"
)

const home = "kyma-system"

// agentRole returns the agent's Role from the chart.
func agentRole(t *testing.T) *rbacv1.Role {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "..", "charts", "skr-agent", "rbac", "agent.yaml"))
	require.NoError(t, err)
	defer file.Close()
	var role rbacv1.Role
	require.NoError(t, utilyaml.NewYAMLOrJSONDecoder(file, 4096).Decode(&role))
	require.Equal(t, "Role", role.Kind)
	return &role
}

// The role must contain all slots. Its only permission for Secrets without a name must be create.
func TestAgentRoleListsContentSecretNames(t *testing.T) {
	var slots []string
	for _, rule := range agentRole(t).Rules {
		if !slices.Contains(rule.Resources, "secrets") {
			continue
		}
		if len(rule.ResourceNames) == 0 {
			require.Equal(t, []string{"create"}, rule.Verbs)
		}
		if slices.Contains(rule.ResourceNames, SlotNames()[0]) {
			slots = rule.ResourceNames
			require.Equal(t, []string{"get", "delete"}, rule.Verbs)
		}
	}
	require.Equal(t, SlotNames(), slots)
}

// confinedClient returns a client for an administrator, and one for an agent that has only the chart's Role.
func confinedClient(t *testing.T) (admin, agent client.Client) {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("needs a kube-apiserver: KUBEBUILDER_ASSETS is not set")
	}
	server, err := lender.Start(t.Context(), &envtest.Environment{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	admin, err = client.New(server.Config, client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	config := rest.CopyConfig(server.Config)
	config.QPS = -1
	config.Impersonate.UserName = "system:serviceaccount:kyma-system:skr-agent"
	agent, err = client.New(config, client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	ctx, role := t.Context(), agentRole(t)
	require.NoError(t, admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}}))
	require.NoError(t, admin.Create(ctx, role))
	require.NoError(t, admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: config.Impersonate.UserName}},
	}))
	require.Eventually(t, func() bool { // the API server applies new roles with a delay
		err := agent.Get(ctx, client.ObjectKey{Namespace: home, Name: SlotNames()[0]}, &corev1.Secret{})
		return apierrors.IsNotFound(err)
	}, 30*time.Second, 50*time.Millisecond)
	return admin, agent
}

func TestContentStoreNeedsOnlyTheChartsRole(t *testing.T) {
	admin, agent := confinedClient(t)
	ctx := t.Context()
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "keda-credentials"}}
	require.NoError(t, admin.Create(ctx, foreign))
	require.NoError(t, admin.Create(ctx, &corev1.Secret{ // a slot that another client has created
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: SlotNames()[0]},
	}))

	t.Log("the agent cannot read, change or delete the Secrets of modules")
	for what, err := range map[string]error{
		"get":    agent.Get(ctx, client.ObjectKeyFromObject(foreign), &corev1.Secret{}),
		"list":   agent.List(ctx, &corev1.SecretList{}, client.InNamespace(home)),
		"update": agent.Update(ctx, foreign.DeepCopy()),
		"delete": agent.Delete(ctx, foreign.DeepCopy()),
	} {
		require.True(t, apierrors.IsForbidden(err), "%s: %v", what, err)
	}

	data := noise(2 << 20)
	d, small := digest.FromBytes(data), digest.FromString("small")
	store := New(agent, agent, home)
	whole := func(s *Store) int {
		t.Helper()
		all, err := s.ListComplete(ctx)
		require.NoError(t, err)
		return len(all)
	}
	t.Log("a blob of several chunks is complete, for this process and for another one")
	require.NoError(t, store.Put(ctx, d, data))
	require.NoError(t, store.Add(ctx, small, []byte("small")))
	require.NoError(t, store.Add(ctx, small, []byte("small")), "add must accept an existing blob")
	other := New(agent, agent, home)
	for _, s := range []*Store{store, other} {
		back, err := s.Load(ctx, d)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, back))
		require.Equal(t, 2, whole(s))
	}
	_, err := store.Load(ctx, digest.FromString("unknown"))
	require.ErrorIs(t, err, ErrMissing)

	t.Log("a deleted chunk is detected, and another process with older knowledge recovers")
	require.NoError(t, admin.Delete(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: SlotNames()[2]},
	}))
	intact, err := store.Recheck(ctx, d)
	require.NoError(t, err)
	require.False(t, intact)
	require.NoError(t, store.Put(ctx, d, data))
	require.NoError(t, other.Add(ctx, digest.FromString("third"), []byte("third")))
	require.Equal(t, 3, whole(other))
	back, err := other.Load(ctx, d)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, back))

	t.Log("a process does not delete a slot whose content another process has replaced")
	third, fourth := digest.FromString("third"), digest.FromString("fourth")
	require.NoError(t, store.Prune(ctx, map[digest.Digest]bool{d: true, small: true}))
	require.NoError(t, store.Add(ctx, fourth, []byte("fourth")))
	require.NoError(t, other.deleteSecrets(ctx, chunkName(third, 0)))
	_, err = store.Load(ctx, fourth)
	require.NoError(t, err)

	t.Log("users with other permissions find the content, too")
	for what, reader := range map[string]client.Client{"administrator": admin, "agent": agent} {
		back, err := NewReader(reader, home).Load(ctx, d)
		require.NoError(t, err, what)
		require.True(t, bytes.Equal(data, back), what)
	}
	require.NoError(t, New(admin, admin, home).Add(ctx, digest.FromString("named"), []byte("named")))
	_, err = NewReader(admin, home).Load(ctx, digest.FromString("named"))
	require.NoError(t, err)

	t.Log("prune deletes all content except the given blobs, and no other Secrets")
	require.NoError(t, store.Prune(ctx, map[digest.Digest]bool{small: true}))
	require.Equal(t, 1, whole(store))
	var secrets corev1.SecretList
	require.NoError(t, admin.List(ctx, &secrets, client.InNamespace(home)))
	require.Len(t, secrets.Items, 4, "the agent cannot delete content with names that its role does not list")
}

func TestFullContentStoreIsReported(t *testing.T) {
	s := &slots{used: map[string]metav1.PartialObjectMetadata{}}
	for range SlotNames() {
		_, err := s.reserve("x")
		require.NoError(t, err)
	}
	_, err := s.reserve("x")
	require.ErrorIs(t, err, ErrFull)
}
