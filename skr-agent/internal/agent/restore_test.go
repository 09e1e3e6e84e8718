package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

// The controllers wait until the API server serves their kinds. If the agent did not restore the CRDs while it starts,
// it would hang.
func TestAgentRestoresCRDsDeletedDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.NewClientBuilder().Build()
		a := newAgent(Options{Uncached: api, Now: time.Now})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := false
		go func() { _ = a.restoreCRDsUntilStart(ctx); ended = true }()
		kymas := &unstructured.Unstructured{}
		kymas.SetGroupVersionKind(schema.GroupVersionKind{
			Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition",
		})
		kymas.SetName("kymas." + v1beta2.Group)
		for range 2 {
			time.Sleep(time.Minute)
			synctest.Wait()
			require.NoError(t, api.Get(ctx, client.ObjectKeyFromObject(kymas), kymas.DeepCopy()))
			require.NoError(t, api.Delete(ctx, kymas.DeepCopy()))
		}
		a.hasStarted.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.True(t, ended, "the first round must end this restore")
		require.True(t, apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(kymas), kymas.DeepCopy())))
	})
}

func TestOnlyContentAndStateSecretChangesStartARound(t *testing.T) {
	var c changeLog
	content := digest.FromString("content")
	secret := func(name string, annotations map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	}
	piece := secret("kyma-pull-content-sha256-1", map[string]string{"kyma-pull.dev/content-digest": content.String()})
	for what, matters := range map[string]bool{
		"content deleted": c.recordSecret(piece, true), "content replaced": c.recordSecret(piece, false),
		"state deleted": c.recordSecret(secret("skr-agent-state", nil), true),
	} {
		require.True(t, matters, what)
	}
	for what, matters := range map[string]bool{
		"state written":                   c.recordSecret(secret("skr-agent-state", nil), false),
		"key deleted":                     c.recordSecret(secret("skr-agent-key", nil), true),
		"Secret of another owner deleted": c.recordSecret(secret("login", nil), true),
		"Secret with an invalid digest deleted": c.recordSecret(
			secret("login", map[string]string{"kyma-pull.dev/content-digest": "none"}), true),
	} {
		require.False(t, matters, what)
	}
	c.recordDefinition()
	definitions, contents, secrets := c.take()
	require.True(t, definitions)
	require.Len(t, contents, 1)
	require.True(t, contents[content].isLost)
	require.Equal(t, map[string]bool{"skr-agent-state": true}, secrets)
	definitions, contents, secrets = c.take()
	require.False(t, definitions)
	require.Empty(t, contents)
	require.Empty(t, secrets)
}

// limitedClient is a fake API client that refuses writes while err is set.
type limitedClient struct {
	discardClient
	err error
}

func (c *limitedClient) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return c.err
}

func TestEachDeletedSecretIsRestoredAfterAnError(t *testing.T) {
	api := &limitedClient{err: apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil)}
	a := newAgent(Options{
		Puller:   pull.New(pull.Options{ConfiguredLocation: store.NewMemory(), Client: api, Key: trusttest.NewSigner(t)}),
		Restorer: &objects.Restorer{Client: api, Uncached: api, Signer: trusttest.NewSigner(t)},
	})
	_, err := a.Restorer.LoadChecks(t.Context())
	require.NoError(t, err)
	want := map[string]bool{pull.StateSecret: true, objects.MemorySecret: true}
	for name := range want {
		a.changes.recordSecret(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}, true)
	}
	for range 2 {
		_, _, deleted := a.changes.take()
		require.Equal(t, want, deleted)
		err := a.restoreSecrets(t.Context(), logr.Discard(), deleted)
		for name := range want {
			require.ErrorContains(t, err, name)
		}
	}
	api.err = nil
	_, _, deleted := a.changes.take()
	require.NoError(t, a.restoreSecrets(t.Context(), logr.Discard(), deleted))
	_, _, deleted = a.changes.take()
	require.Empty(t, deleted)
}

func TestRepeatedContentDamageIsLoggedOnce(t *testing.T) {
	var l lossLog
	one, other := digest.FromString("one"), digest.FromString("other")
	require.Equal(t, []digest.Digest{one}, l.newLosses([]digest.Digest{one}))
	require.Empty(t, l.newLosses(nil), "content was fetched again")
	require.Equal(t, []digest.Digest{other}, l.newLosses([]digest.Digest{one, other}))
	for range 3 {
		l.resetPoll()
		require.Empty(t, l.newLosses([]digest.Digest{one}), "damage continues with every poll")
	}
	l.resetPoll()
	l.resetPoll()
	require.Equal(t, []digest.Digest{one}, l.newLosses([]digest.Digest{one}),
		"damage after a poll interval without damage must be logged")
}
