package contentstore

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/lender"
)

// noise returns incompressible data.
func noise(size int) []byte {
	data := make([]byte, size)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(data)
	return data
}

func TestCompressedDataIsRestored(t *testing.T) {
	for name, data := range map[string][]byte{
		"empty": {}, "short text": []byte("word"), "4 MiB of zeros": make([]byte, 4<<20),
		"2 MiB of noise": noise(2 << 20),
	} {
		t.Run(name, func(t *testing.T) {
			packed, err := compress(data)
			require.NoError(t, err)
			back, err := decompress(bytes.Join(split(packed, 100_000), nil), len(data))
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, back))
			_, err = decompress(packed, len(data)+1)
			require.Error(t, err)
			if len(data) > 0 {
				_, err = decompress(packed, len(data)-1)
				require.Error(t, err)
			}
		})
	}
}

// crashing is a client that fails after a number of writes, like a crashed process.
type crashing struct {
	client.Client
	left int
}

var errDied = errors.New("died")

func (d *crashing) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if _, isSecret := o.(*corev1.Secret); !isSecret {
		return d.Client.Create(ctx, o, opts...)
	}
	if d.left--; d.left < 0 {
		return errDied
	}
	return d.Client.Create(ctx, o, opts...)
}

func (d *crashing) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if d.left < 0 {
		return errDied
	}
	return d.Client.Delete(ctx, o, opts...)
}

// quota is a client with a quota. Like an API server, it checks the quota before it checks whether a Secret
// exists.
type quota struct {
	client.Client
	most int
}

func (l *quota) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if _, isSecret := o.(*corev1.Secret); !isSecret {
		return l.Client.Create(ctx, o, opts...)
	}
	var secrets corev1.SecretList
	if err := l.List(ctx, &secrets, client.HasLabels{v1beta2.LabelContent}); err != nil {
		return err
	}
	if len(secrets.Items) >= l.most {
		return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), errors.New("exceeded quota"))
	}
	return l.Client.Create(ctx, o, opts...)
}

func TestBlobsAreCompleteOrMissing(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("needs a kube-apiserver: KUBEBUILDER_ASSETS is not set")
	}
	server, err := lender.Start(t.Context(), &envtest.Environment{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	c, err := client.New(server.Config, client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	ctx, store := t.Context(), New(c, c, "default")
	data := noise(2 << 20)
	d := digest.FromBytes(data)
	has := func(want bool) {
		t.Helper()
		got, err := store.Has(ctx, d)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	has(false)
	_, err = store.Load(ctx, d)
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, store.Put(ctx, d, data[1:]), "digest is")

	t.Log("the blob is missing after an interrupted put, and another put completes it")
	for writes := range 4 { // three chunks and the index
		require.ErrorIs(t, New(c, &crashing{c, writes}, "default").Put(ctx, d, data), errDied)
		has(false)
	}
	require.NoError(t, store.Put(ctx, d, data))
	has(true)
	back, err := store.Load(ctx, d)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, back))

	t.Log("a missing or wrong chunk is an error of a load, and a put replaces it")
	chunk := &corev1.Secret{}
	require.NoError(t, c.Get(ctx, client.ObjectKey{Namespace: "default", Name: chunkName(d, 1)}, chunk))
	chunk.Data[chunkKey][0] ^= 1
	require.Error(t, c.Update(ctx, chunk), "chunks must be immutable")
	require.NoError(t, c.Delete(ctx, chunk))
	has(false)
	_, err = store.Load(ctx, d)
	require.ErrorIs(t, err, ErrMissing)
	chunk.ResourceVersion, chunk.UID = "", ""
	require.NoError(t, c.Create(ctx, chunk))
	_, err = store.Load(ctx, d)
	require.ErrorIs(t, err, ErrBroken)
	require.NoError(t, store.Put(ctx, d, data))
	_, err = store.Load(ctx, d)
	require.NoError(t, err)

	t.Log("a blob of one chunk is one Secret")
	small := digest.FromString("small")
	complete := func(want bool) {
		t.Helper()
		whole, err := store.ListComplete(ctx)
		require.NoError(t, err)
		require.Equal(t, want, whole[small])
	}
	require.ErrorIs(t, New(c, &crashing{c, 0}, "default").Add(ctx, small, []byte("small")), errDied)
	complete(false)
	require.NoError(t, New(c, &crashing{c, 1}, "default").Add(ctx, small, []byte("small")))
	complete(true)
	require.NoError(t, store.Add(ctx, small, []byte("small")), "add must accept an existing blob")
	require.ErrorContains(t, store.Add(ctx, small, []byte("other")), "digest is")
	intact, err := store.Recheck(ctx, small)
	require.NoError(t, err)
	require.True(t, intact)

	t.Log("a damaged blob of one chunk is missing after a recheck, and add writes it again")
	require.NoError(t, c.Get(ctx, client.ObjectKey{Namespace: "default", Name: chunkName(small, 0)}, chunk))
	require.NoError(t, c.Delete(ctx, chunk))
	chunk.Data[chunkKey][0] ^= 1
	chunk.ResourceVersion, chunk.UID = "", ""
	require.NoError(t, c.Create(ctx, chunk))
	complete(true)
	intact, err = store.Recheck(ctx, small)
	require.NoError(t, err)
	require.False(t, intact)
	complete(false)
	require.NoError(t, store.Add(ctx, small, []byte("small")))
	complete(true)

	t.Log("a blob of one chunk from an older agent, which wrote an index and did not mark single chunks, is complete")
	require.NoError(t, c.Get(ctx, client.ObjectKey{Namespace: "default", Name: chunkName(small, 0)}, chunk))
	require.NoError(t, c.Delete(ctx, chunk))
	index := store.newSecret(small, indexName(small), roleIndex, nil)
	index.Annotations = maps.Clone(chunk.Annotations)
	delete(chunk.Annotations, v1beta2.AnnotationContentChunks)
	chunk.ResourceVersion, chunk.UID = "", ""
	require.NoError(t, c.Create(ctx, chunk))
	complete(false)
	require.NoError(t, c.Create(ctx, index))
	complete(true)
	_, err = store.Load(ctx, small)
	require.NoError(t, err)
	require.NoError(t, store.Prune(ctx, map[digest.Digest]bool{d: true}))
	complete(false)

	t.Log("prune keeps the given blobs and deletes leftovers")
	require.ErrorIs(t, New(c, &crashing{c, 1}, "default").Put(ctx, digest.FromBytes(noise(1<<20)), noise(1<<20)), errDied)
	require.NoError(t, store.Put(ctx, digest.FromString("third"), []byte("third")))
	require.NoError(t, store.Prune(ctx, map[digest.Digest]bool{d: true}))
	var secrets corev1.SecretList
	require.NoError(t, c.List(ctx, &secrets, client.HasLabels{v1beta2.LabelContent}))
	require.Len(t, secrets.Items, 4)
	has(true)

	t.Log("a blob over the quota leaves no chunks, and leftovers are replaced")
	require.NoError(t, store.Prune(ctx, nil))
	tight := New(c, &quota{c, 3}, "default")
	require.True(t, apierrors.IsForbidden(tight.Add(ctx, d, data)), "the blob needs four Secrets")
	require.NoError(t, c.List(ctx, &secrets, client.HasLabels{v1beta2.LabelContent}))
	require.Zero(t, len(secrets.Items))
	require.ErrorIs(t, New(c, &crashing{c, 3}, "default").Add(ctx, d, data), errDied)
	require.True(t, apierrors.IsForbidden(tight.Add(ctx, small, []byte("small"))))
	require.NoError(t, New(c, &quota{c, 4}, "default").Add(ctx, d, data))
	has(true)
	require.NoError(t, New(c, &quota{c, 5}, "default").Add(ctx, small, []byte("small")))
}
