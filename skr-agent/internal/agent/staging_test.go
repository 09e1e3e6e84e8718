package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/report"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

// server is a fake API server with Secrets.
type server struct {
	client.Client
	items   []metav1.PartialObjectMetadata
	err     error
	deleted []string
}

func (s *server) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*metav1.PartialObjectMetadataList).Items = s.items
	return s.err
}

func (s *server) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errors.New("the API server reviews no permissions")
}

func (s *server) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	s.deleted = append(s.deleted, o.GetName())
	return nil
}

// agentWithStore returns an Agent whose content store uses the server.
func agentWithStore(s *server) *Agent {
	store := contentstore.New(s, s, "kyma-system")
	return newAgent(Options{Store: store, Puller: pull.New(pull.Options{Store: store})})
}

func of(module, text string) bundle.Manifest {
	return bundle.Manifest{
		Name:    module,
		Module:  module,
		Content: []bundle.Content{{Repository: "example.com/" + module, Digest: digest.FromString(text)}},
	}
}

func TestUnreadableContentStoreDoesNotChangeModuleErrors(t *testing.T) {
	api := &server{err: errors.New("too many requests")}
	a := agentWithStore(api)
	known := map[string]error{"keda": errors.New("not in the registry")}
	a.contentErrors = known
	state := bundle.DesiredState{Manifests: []bundle.Manifest{of("keda", "a"), of("nats", "b")}}
	for range 2 {
		_, err := a.stageContents(t.Context(), logr.Discard(), state)
		require.ErrorIs(t, err, api.err)
		require.Equal(t, known, a.contentErrors, "errors of modules must not change")
	}
	api.err = nil
	fetched, err := a.stageContents(t.Context(), logr.Discard(), bundle.DesiredState{})
	require.NoError(t, err)
	require.True(t, fetched, "the next round must read the store again")
	require.Empty(t, a.contentErrors)
}

func TestContentOfReplacedBundleIsPruned(t *testing.T) {
	api := &server{}
	a := agentWithStore(api)
	facts := report.Facts{Bundle: &bundle.Bundle{}}
	round := func(state bundle.DesiredState) {
		t.Helper()
		_, err := a.stageContents(t.Context(), logr.Discard(), state)
		require.NoError(t, err)
		require.NoError(t, a.prune(t.Context(), facts))
	}
	round(bundle.DesiredState{})
	// The agent stores content for another bundle. Then it applies the first bundle again.
	a.stagedKey, a.staging = "others", a.Puller.StartStaging(bundle.DesiredState{}, nil)
	api.items = []metav1.PartialObjectMetadata{
		{
			ObjectMeta: metav1.ObjectMeta{
				Name:        "left",
				Annotations: map[string]string{"kyma-pull.dev/content-digest": digest.FromString("a").String()},
			},
		},
	}
	round(bundle.DesiredState{})
	require.Equal(t, []string{"left"}, api.deleted)
	round(bundle.DesiredState{})
	require.Equal(t, []string{"left"}, api.deleted, "a second round must not prune again")
}

// While the Manifest CRD is deleted, the agent cannot read Manifests, but restores them later. An upgrade can then
// still wait for a maintenance window, so the agent needs the content of the installed version.
func TestDeletedManifestKeepsItsContentUntilRestored(t *testing.T) {
	held := digest.FromString("held version")
	api := &server{items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{
		Name: "held", Annotations: map[string]string{"kyma-pull.dev/content-digest": held.String()},
	}}}}
	a := agentWithStore(api)
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, v1beta2.AddToScheme(scheme))
	manifest := &v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "keda"},
		Spec: v1beta2.ManifestSpec{Install: v1beta2.InstallInfo{
			Source: runtime.RawExtension{Raw: []byte(`{"ref": "` + held.String() + `"}`)},
		}},
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(manifest).Build()
	a.Restorer = &objects.Restorer{Client: cluster, Uncached: cluster, Signer: trusttest.NewSigner(t)}
	b := &bundle.Bundle{State: bundle.DesiredState{Manifests: []bundle.Manifest{of("keda", "next version")}}}
	_, err := a.Restorer.Restore(t.Context(), b)
	require.NoError(t, err)

	a.needsPrune = true
	require.NoError(t, a.prune(t.Context(), report.Facts{Bundle: b}))
	require.Empty(t, api.deleted, "the Manifest is deleted, but is restored with this content")

	without := &bundle.Bundle{}
	require.NoError(t, cluster.Delete(t.Context(), manifest))
	_, err = a.Restorer.Restore(t.Context(), without)
	require.NoError(t, err)
	require.NoError(t, a.prune(t.Context(), report.Facts{Bundle: without}))
	require.Equal(t, []string{"held"}, api.deleted, "no bundle contains the module any more")
}

func TestContentDeletedDuringFetchIsVerifiedAfterTheFetch(t *testing.T) {
	a := agentWithStore(&server{})
	old, lost, written := digest.FromString("old"), digest.FromString("lost"), digest.FromString("written")
	a.keptDigests, a.needsPrune = map[digest.Digest]bool{old: true}, true
	a.staging = a.Puller.StartStaging(bundle.DesiredState{}, nil)
	poll := func() bool {
		t.Helper()
		_, contents, _ := a.changes.take()
		postponed, err := a.verifyContents(t.Context(), logr.Discard(), contents)
		require.NoError(t, err)
		return postponed
	}
	a.changes.recordLost([]digest.Digest{lost})
	for _, d := range []digest.Digest{lost, written} {
		a.changes.recordSecret(contentSecret(d, "another-1", "1"), false)
	}
	a.stagedKey = "these"
	for range 2 {
		require.True(t, poll())
		require.Len(t, a.changes.contents, 1, "content that is not complete yet needs no recheck")
		require.True(t, a.changes.contents[lost].isLost)
	}
	a.keptDigests, a.needsPrune, a.staging = map[digest.Digest]bool{lost: true, written: true}, false, nil
	require.False(t, poll())
	require.Empty(t, a.stagedKey, "lost content must be fetched again")
	a.changes.recordLost([]digest.Digest{old})
	require.False(t, poll())
	require.Empty(t, a.changes.contents, "unneeded content must not be rechecked")
}

func contentSecret(d digest.Digest, name, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, ResourceVersion: version, Annotations: map[string]string{v1beta2.AnnotationContentDigest: d.String()},
	}}
}

func TestAgentDoesNotRecheckContentItWrote(t *testing.T) {
	cluster := fake.NewClientBuilder().Build()
	store := contentstore.New(cluster, cluster, v1beta2.RuntimeNamespace)
	a := newAgent(Options{Store: store, Puller: pull.New(pull.Options{Store: store})})
	d := digest.FromString("content")
	require.NoError(t, store.Add(t.Context(), d, []byte("content")))
	var written corev1.SecretList
	require.NoError(t, cluster.List(t.Context(), &written))
	require.Len(t, written.Items, 1)
	own, at := written.Items[0].Name, written.Items[0].ResourceVersion
	a.keptDigests = map[digest.Digest]bool{d: true}
	rechecks := func(version string, deleted bool) bool {
		a.changes.recordSecret(contentSecret(d, own, at), false)
		a.changes.recordSecret(contentSecret(d, own, version), deleted)
		_, contents, _ := a.changes.take()
		a.stagedKey = "these"
		require.NoError(t, cluster.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(v1beta2.RuntimeNamespace)))
		_, err := a.verifyContents(t.Context(), logr.Discard(), contents)
		require.NoError(t, err)
		return a.stagedKey == ""
	}
	require.False(t, rechecks(at, false), "the agent wrote this version")
	require.True(t, rechecks("another", false), "another client wrote a newer version")
	require.NoError(t, store.Add(t.Context(), d, []byte("content")))
	require.True(t, rechecks(at, true), "another client deleted the Secret")
}

func TestPollDuringFetchRetriesFailedContent(t *testing.T) {
	a := agentWithStore(&server{})
	failed := map[string]error{"keda": errors.New("not in the registry")}
	a.staging = a.Puller.StartStaging(bundle.DesiredState{}, nil)
	a.stagedKey = "these"
	a.refetchMissing()
	require.Equal(t, "these", a.stagedKey, "a poll must not restart a running fetch")
	a.finishStaging(failed)
	require.Empty(t, a.stagedKey, "failed content must be fetched again after a poll during the fetch")
	a.stagedKey, a.staging = "these", a.Puller.StartStaging(bundle.DesiredState{}, nil)
	a.finishStaging(failed)
	require.Equal(t, "these", a.stagedKey, "failed content must be retried once")
	a.refetchMissing()
	require.Empty(t, a.stagedKey, "a poll without a running fetch must retry at once")

	a.staging, a.stagedKey = a.Puller.StartStaging(bundle.DesiredState{}, nil), "these"
	a.refetchMissing()
	a.finishStaging(nil)
	require.Equal(t, "these", a.stagedKey, "a fetch without failures needs no retry")
}
