package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/report"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

// server is an API server with Secrets.
type server struct {
	client.Client
	items []metav1.PartialObjectMetadata
	// err is the error of lists.
	err error
	// deleted contains the names of deleted objects.
	deleted []string
}

func (s *server) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*metav1.PartialObjectMetadataList).Items = s.items
	return s.err
}

func (s *server) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	s.deleted = append(s.deleted, o.GetName())
	return nil
}

// stocked returns an Agent with a content store in the Secrets of the server.
func stocked(s *server) *Agent {
	store := contentstore.New(s, s, "kyma-system")
	return New(Options{Store: store, Puller: pull.New(pull.Options{Store: store})})
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
	a := stocked(api)
	known := map[string]error{"keda": errors.New("not in the registry")}
	a.unstaged = known
	state := bundle.DesiredState{Manifests: []bundle.Manifest{of("keda", "a"), of("nats", "b")}}
	for range 2 {
		_, err := a.stage(t.Context(), logr.Discard(), state)
		require.ErrorIs(t, err, api.err)
		require.Equal(t, known, a.unstaged, "errors of modules must not change")
	}
	api.err = nil
	fetched, err := a.stage(t.Context(), logr.Discard(), bundle.DesiredState{})
	require.NoError(t, err)
	require.True(t, fetched, "the next round must read the store again")
	require.Empty(t, a.unstaged)
}

func TestContentOfReplacedBundleIsPruned(t *testing.T) {
	api := &server{}
	a := stocked(api)
	facts := report.Facts{Bundle: &bundle.Bundle{}}
	round := func(state bundle.DesiredState) {
		t.Helper()
		_, err := a.stage(t.Context(), logr.Discard(), state)
		require.NoError(t, err)
		require.NoError(t, a.prune(t.Context(), facts))
	}
	round(bundle.DesiredState{})
	// Another bundle stores some contents. Then the agent applies the first bundle again.
	a.staged, a.staging = "others", a.Puller.Stage(bundle.DesiredState{}, nil)
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

func TestContentDeletedDuringFetchIsCheckedAfterwards(t *testing.T) {
	a := stocked(&server{})
	old, lost, written := digest.FromString("old"), digest.FromString("lost"), digest.FromString("written")
	a.kept, a.unpruned = map[digest.Digest]bool{old: true}, true
	a.staging = a.Puller.Stage(bundle.DesiredState{}, nil)
	poll := func() bool {
		t.Helper()
		_, contents, _ := a.changes.take()
		postponed, err := a.recheck(t.Context(), logr.Discard(), contents)
		require.NoError(t, err)
		return postponed
	}
	a.changes.noteContents([]digest.Digest{lost}, true)
	a.changes.noteContents([]digest.Digest{lost, written}, false)
	a.staged = "these"
	for range 2 {
		require.True(t, poll())
		require.Equal(t, map[digest.Digest]bool{lost: true}, a.changes.contents,
			"content that the agent wrote needs no recheck")
	}
	a.kept, a.unpruned, a.staging = map[digest.Digest]bool{lost: true, written: true}, false, nil
	require.False(t, poll())
	require.Empty(t, a.staged, "lost content must be fetched again")
	a.changes.noteContents([]digest.Digest{old}, true)
	require.False(t, poll())
	require.Empty(t, a.changes.contents, "unneeded content must not be rechecked")
}

func TestPollDuringFetchRetriesFailedContent(t *testing.T) {
	a := stocked(&server{})
	failed := map[string]error{"keda": errors.New("not in the registry")}
	a.staging = a.Puller.Stage(bundle.DesiredState{}, nil)
	a.staged = "these"
	a.refetchMissing()
	require.Equal(t, "these", a.staged, "a poll must not restart a running fetch")
	a.staging, a.unstaged = nil, failed
	require.Equal(t, minRound, a.stageAgain())
	require.Empty(t, a.staged)
	a.staged = "these"
	require.Zero(t, a.stageAgain(), "failed content must be retried once")
	require.Equal(t, "these", a.staged)
	a.refetchMissing()
	require.Empty(t, a.staged, "a poll without a running fetch must retry at once")

	a.staging, a.staged = a.Puller.Stage(bundle.DesiredState{}, nil), "these"
	a.refetchMissing()
	a.staging, a.unstaged = nil, nil
	require.Zero(t, a.stageAgain(), "a fetch without failures needs no retry")
}
