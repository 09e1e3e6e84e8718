package pull

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
)

// counting is a client that counts its requests to the API server.
type counting struct {
	client.Client
	lists, gets, creates, updates, deletes atomic.Int64
	// unlisted is the error that list requests return. If it is nil, the API server handles them.
	unlisted error
}

func (c *counting) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	c.lists.Add(1)
	if c.unlisted != nil {
		return c.unlisted
	}
	return c.Client.List(ctx, l, opts...)
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.gets.Add(1)
	return c.Client.Get(ctx, key, o, opts...)
}

func (c *counting) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if !isReview(o) {
		c.creates.Add(1)
	}
	return c.Client.Create(ctx, o, opts...)
}

func (c *counting) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	c.updates.Add(1)
	return c.Client.Update(ctx, o, opts...)
}

func (c *counting) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	c.deletes.Add(1)
	return c.Client.Delete(ctx, o, opts...)
}

// narrow is a client with a quota for content Secrets. The first writes wait for each other, so that each of them
// stores the first part of a different blob.
type narrow struct {
	client.Client
	most, first int
	waiting     sync.WaitGroup
	creates     atomic.Int64
}

func (n *narrow) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if isReview(o) {
		return n.Client.Create(ctx, o, opts...)
	}
	if n.creates.Add(1) <= int64(n.first) {
		err := n.Client.Create(ctx, o, opts...)
		n.waiting.Done()
		n.waiting.Wait()
		return err
	}
	var secrets corev1.SecretList
	if err := n.List(ctx, &secrets, client.InNamespace(o.GetNamespace()),
		client.HasLabels{"kyma-pull.dev/content"}); err != nil {
		return err
	}
	if len(secrets.Items) >= n.most {
		return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), errors.New("exceeded quota"))
	}
	return n.Client.Create(ctx, o, opts...)
}

func TestTightQuotaMakesContentWritesSequential(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.publish()
	changed, err := w.puller.Pull(ctx)
	require.NoError(t, err)
	require.True(t, changed)
	repository, err := w.place.Repository(ctx, bundle.ContentRepository)
	require.NoError(t, err)
	var state bundle.DesiredState
	const contents = 4 // number of blobs; the agent fetches at most 4 MiB at a time
	for i := range contents {
		text := make([]byte, 1<<20)
		source := rand.NewChaCha8([32]byte{byte(i)})
		_, _ = source.Read(text)
		c := bundle.Content{
			Name:       "raw-manifest",
			Repository: "./" + bundle.ContentRepository,
			MediaType:  "application/octet-stream",
			Digest:     digest.FromBytes(text),
			SizeBytes:  int64(len(text)),
		}
		require.NoError(t, repository.Push(ctx, c.Descriptor(), bytes.NewReader(text)))
		state.Manifests = append(state.Manifests, bundle.Manifest{
			Name: fmt.Sprint("m", i), Module: fmt.Sprint("m", i), Content: []bundle.Content{c},
		})
	}
	require.NoError(t, w.puller.Store.Prune(ctx, nil))
	tight := &narrow{Client: w.client, most: 3 * contents / 2, first: contents} // two chunks and an index each
	tight.waiting.Add(contents)
	w.puller.Store = contentstore.New(tight, tight, w.namespace)
	staging := w.puller.StartStaging(state, nil)
	var problems map[string]error
	for done := false; !done; {
		problems, done, err = staging.Continue(ctx, time.Minute)
		require.NoError(t, err)
	}
	require.Len(t, problems, contents/2, "each content must need three Secrets")
	whole, err := w.puller.Store.ListComplete(ctx)
	require.NoError(t, err)
	require.Len(t, whole, contents/2)
	require.True(t, w.puller.StartStaging(state, problems).isSequential,
		"the next poll must continue without concurrent writes")
}

func TestFetchingContentNeedsFewRequests(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.publish()
	counted := &counting{Client: w.client}
	puller := w.started(counted)
	changed, err := puller.Pull(ctx)
	require.NoError(t, err)
	require.True(t, changed)
	repository, err := w.place.Repository(ctx, bundle.ContentRepository)
	require.NoError(t, err)
	content := func(text string, push bool) bundle.Content {
		c := bundle.Content{
			Name:       "raw-manifest",
			Repository: "./" + bundle.ContentRepository,
			MediaType:  "application/octet-stream",
			Digest:     digest.FromString(text),
			SizeBytes:  int64(len(text)),
		}
		if push {
			require.NoError(t, repository.Push(ctx, c.Descriptor(), bytes.NewReader([]byte(text))))
		}
		return c
	}
	shared := content("shared", true)
	var state bundle.DesiredState
	for i := range 5 {
		m := bundle.Manifest{
			Name:    fmt.Sprint("m", i),
			Module:  fmt.Sprint("m", i),
			Content: []bundle.Content{shared, content(fmt.Sprint("own-", i), i != 1)},
		}
		state.Manifests = append(state.Manifests, m)
	}
	counted.lists.Store(0)
	counted.gets.Store(0)
	counted.creates.Store(0)

	t.Log("each call fetches one content, in the order of the modules; modules with all contents do not wait")
	staging := puller.StartStaging(state, nil)
	counted.unlisted = errors.New("too many requests")
	_, done, err := staging.Continue(ctx, 0)
	require.ErrorIs(t, err, counted.unlisted, "an unreadable store must not be an error of a module")
	require.False(t, done)
	require.NotContains(t, staging.PendingErrors()["m0"].Error(), "too many requests")
	counted.unlisted = nil
	counted.lists.Store(0)
	for contents := range 5 {
		_, done, err := staging.Continue(ctx, 0)
		require.NoError(t, err)
		require.False(t, done, "staging must not be done after %d contents", contents+1)
		waiting := staging.PendingErrors()
		require.Equal(t, contents < 1, waiting["m0"] != nil, "whether m0 waits after %d contents", contents+1)
		require.Equal(t, contents < 3, waiting["m2"] != nil, "whether m2 waits after %d contents", contents+1)
		require.Error(t, waiting["m1"])
		require.Error(t, waiting["m4"])
		require.True(t, staging.IsMissing(state.Manifests[4].Content[1].Digest))
		require.False(t, staging.IsMissing(shared.Digest))
	}
	problems, done, err := staging.Continue(ctx, 0)
	require.NoError(t, err)
	require.True(t, done)
	require.Len(t, problems, 1)
	require.ErrorContains(t, problems["m1"], "was not found in")
	require.Equal(t, problems, staging.PendingErrors())
	require.True(t, staging.IsMissing(state.Manifests[1].Content[1].Digest))
	require.False(t, staging.IsMissing(state.Manifests[4].Content[1].Digest))
	require.EqualValues(t, 1, counted.lists.Load())
	require.Zero(t, counted.gets.Load())
	require.EqualValues(t, 5, counted.creates.Load())
	require.Zero(t, counted.deletes.Load())
	for _, m := range state.Manifests[2:] {
		for _, c := range m.Content {
			_, err := puller.Store.Load(ctx, c.Digest)
			require.NoError(t, err)
		}
	}

	t.Log("the next staging fetches failed content last, and fetches no content twice")
	state.Manifests = append(state.Manifests, bundle.Manifest{
		Name: "m9", Module: "m9", Content: []bundle.Content{content("own-9", true)},
	})
	staging = puller.StartStaging(state, problems)
	_, done, err = staging.Continue(ctx, 0)
	require.NoError(t, err)
	require.False(t, done)
	require.NoError(t, staging.PendingErrors()["m9"])
	require.EqualValues(t, 6, counted.creates.Load())
	problems, done, err = staging.Continue(ctx, time.Minute)
	require.NoError(t, err)
	require.True(t, done)
	require.Len(t, problems, 1)

	t.Log("one call can fetch all contents, and stored contents need one request")
	for i := range 20 {
		state.Manifests = append(
			state.Manifests,
			bundle.Manifest{
				Name:    fmt.Sprint("n", i),
				Module:  fmt.Sprint("n", i),
				Content: []bundle.Content{content(fmt.Sprint("more-", i), true)},
			},
		)
	}
	problems, done, err = puller.StartStaging(state, problems).Continue(ctx, time.Minute)
	require.NoError(t, err)
	require.True(t, done)
	require.Len(t, problems, 1)
	require.EqualValues(t, 26, counted.creates.Load())
	counted.lists.Store(0)
	staging = puller.StartStaging(bundle.DesiredState{Manifests: state.Manifests[2:]}, nil)
	problems, done, err = staging.Continue(ctx, time.Minute)
	require.NoError(t, err)
	require.True(t, done)
	require.Empty(t, problems)
	require.Empty(t, staging.PendingErrors())
	require.EqualValues(t, 1, counted.lists.Load())
	require.EqualValues(t, 26, counted.creates.Load())
}
