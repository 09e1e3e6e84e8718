package pull

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// The content store loses all content. The agent must then store the documents and the release proofs of the last
// accepted bundle again.
func TestLostDocumentsAndProofsAreStoredAgain(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	require.NoError(t, w.puller.StageDocuments(ctx), "without a bundle, no documents are missing")
	key, err := rsa.GenerateKey(rand.Reader, 3072)
	require.NoError(t, err)
	w.publishRoot(func(draft *trust.RootDraft) {
		require.NoError(t, draft.Add(trust.RoleRelease+"makers.example/", &key.PublicKey))
	})
	w.publish()
	changed, err := w.puller.Pull(ctx)
	require.NoError(t, err)
	require.True(t, changed)
	proof := []byte("descriptor")
	c := bundle.Content{
		Name: "descriptor", Repository: "./" + bundle.ContentRepository, MediaType: trust.MediaTypeDescriptor,
		Digest: digest.FromBytes(proof), SizeBytes: int64(len(proof)),
	}
	w.puller.current.State.Manifests = []bundle.Manifest{{Module: "keda", Release: []bundle.Content{c}}}

	require.NoError(t, w.puller.Store.Prune(ctx, nil))
	require.ErrorContains(t, w.puller.StageDocuments(ctx), "module keda: release proof: ",
		"the registry does not contain the proof yet")
	repository, err := w.place.Repository(ctx, bundle.ContentRepository)
	require.NoError(t, err)
	require.NoError(t, repository.Push(ctx, c.Descriptor(), bytes.NewReader(proof)))
	require.NoError(t, w.puller.StageDocuments(ctx))
	for _, d := range []digest.Digest{w.puller.current.Config.Digest, w.puller.current.Catalog.Digest, c.Digest} {
		there, err := w.puller.Store.Has(ctx, d)
		require.NoError(t, err)
		require.True(t, there, "want %s in the content store", d)
	}
}
