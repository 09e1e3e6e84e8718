package pull

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func TestReadingStateRequiresOnlyThePublicKey(t *testing.T) {
	w := newWorld(t)
	public, err := w.agentKey.PublicKey()
	require.NoError(t, err)
	from := SavedState{Client: w.client, Namespace: w.namespace, Runtime: runtimeID, Key: public}
	read := func() (*bundle.Bundle, error) { return ReadBundle(t.Context(), from) }

	got, err := read()
	require.NoError(t, err)
	require.Nil(t, got, "before the first bundle")
	newest := w.publish()
	_, err = w.puller.Pull(t.Context())
	require.NoError(t, err)
	got, err = read()
	require.NoError(t, err)
	require.Equal(t, newest, got.Digest)

	t.Run("bundle that an older root verified, after the registry moved", func(t *testing.T) {
		w.rotate()
		w.puller.location.current = newPlace(t, "after.example/fleet")
		require.NoError(t, w.puller.Save(t.Context()))
		got, err := read()
		require.NoError(t, err)
		require.Equal(t, newest, got.Digest)
	})
	refused := func(t *testing.T, want refusal.Reason) {
		t.Helper()
		_, err := read()
		require.NotNil(t, refusal.Of(err), "got error %v", err)
		require.Equal(t, want, refusal.Of(err).Reason)
	}
	t.Run("bundle of another runtime", func(t *testing.T) {
		from.Runtime = "tokyo"
		defer func() { from.Runtime = runtimeID }()
		refused(t, refusal.WrongRuntime)
	})
	t.Run("state signed with another key", func(t *testing.T) {
		from.Key, err = newKey(t).PublicKey()
		require.NoError(t, err)
		defer func() { from.Key = public }()
		refused(t, refusal.BadSignature)
	})
	t.Run("changed state", func(t *testing.T) {
		w.edit(func(state map[string][]byte) { state[stateAccepted] = append(state[stateAccepted], ' ') })
		refused(t, refusal.BadSignature)
	})
}
