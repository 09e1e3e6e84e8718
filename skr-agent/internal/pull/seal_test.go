package pull

import (
	"crypto"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

// forge saves a complete state with the attacker's bundle, as an attacker with write access to the agent's Secrets
// could.
func (w *world) forge(root trust.Root, publisher trust.Signer) {
	w.Helper()
	place := w.place
	defer func() { w.place = place }()
	var err error
	w.place, err = store.Open(store.LayoutScheme+filepath.Join(w.TempDir(), "forged"), nil)
	require.NoError(w, err)
	d := w.signed(publisher, func(p *bundle.Predicate) { p.Sequence += 9 })
	attacker := w.unrestored(w.client)
	attacker.Trust.Root, attacker.Key = root, nil
	_, err = attacker.Pull(w.Context())
	require.NoError(w, err)
	require.Equal(w, d, inForce(attacker))
}

// requireUnsigned restarts the agent. It requires that the agent restores only the pinned root, but not a bundle.
func (w *world) requireUnsigned() {
	w.Helper()
	w.puller = w.unrestored(w.client)
	refused := refusal.Of(w.puller.Restore(w.Context()))
	require.NotNil(w, refused, "a state without the agent's signature must be refused")
	require.Equal(w, refusal.BadSignature, refused.Reason)
	require.Nil(w, w.puller.Current())
	require.Equal(w, w.pinned.Raw, w.puller.Root().Raw)
	require.Equal(w, w.place, w.puller.Location())
}

// requireRecovered requires that the agent accepts the newest bundle, and restores it after a restart.
func (w *world) requireRecovered() {
	w.Helper()
	newest := w.publish()
	_, err := w.puller.Pull(w.Context())
	require.NoError(w, err)
	require.Equal(w, newest, inForce(w.puller))
	w.restart()
	require.Equal(w, newest, inForce(w.puller))
	require.Equal(w, w.root.Version, w.puller.Root().Version)
}

func TestForgedStateIsNotRestored(t *testing.T) {
	w := newWorld(t)
	revoked := w.publisher
	w.publish()
	w.rotate()
	w.publish()
	_, err := w.puller.Pull(t.Context())
	require.NoError(t, err)

	own := newKey(t)
	public, err := own.PublicKey()
	require.NoError(t, err)
	data, err := trusttest.NewRoot(own, []crypto.PublicKey{public}, w.now.AddDate(1, 0, 0))
	require.NoError(t, err)
	ownRoot, err := trust.ParseRoot(data)
	require.NoError(t, err)
	for name, forge := range map[string]func(){
		"root and bundle of the attacker":          func() { w.forge(ownRoot, own) },
		"pinned root and bundle of a previous key": func() { w.forge(w.pinned, revoked) },
		"location of the attacker": func() {
			w.edit(func(state map[string][]byte) {
				state[stateLocation] = []byte(`{"installed":"` + w.place.String() + `","used":"oci-layout:/elsewhere"}`)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.T = t
			forge()
			w.requireUnsigned()
			w.sequence += 10 // the agent does not accept a bundle that is older than the forged one
			w.requireRecovered()
		})
	}
}

// The saved state does not have a valid signature if an earlier agent version wrote it, or if the agent's key was
// replaced.
func TestUnsignedStateKeepsTheSequence(t *testing.T) {
	w := newWorld(t)
	w.publish()
	w.publish()
	_, err := w.puller.Pull(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.puller.SaveReported(t.Context(), 7, "one"))
	for name, change := range map[string]func(){
		"state without a signature": func() {
			w.edit(func(state map[string][]byte) { delete(state, signatureKey) })
		},
		"replaced key": func() { w.agentKey = newKey(t) },
	} {
		t.Run(name, func(t *testing.T) {
			saved := w.reported()
			change()
			w.requireUnsigned()
			require.Contains(t, w.puller.LostMessage(), "was accepted, but its stored copy was lost")
			require.Equal(t, saved, w.reported())
			require.NoError(t, w.puller.Save(t.Context()))
			w.restart()
			require.Nil(t, w.puller.Current(), "a signature must not cover what was not verified")
			w.put(w.made[0])
			_, err := w.puller.Pull(t.Context())
			refused := refusal.Of(err)
			require.NotNil(t, refused, "an older bundle must be refused, got error %v", err)
			require.Equal(t, refusal.Rollback, refused.Reason)
			w.requireRecovered()
		})
	}
}

// edit changes the Secret with the saved state.
func (w *world) edit(change func(state map[string][]byte)) {
	w.Helper()
	var secret corev1.Secret
	name := client.ObjectKey{Namespace: w.namespace, Name: StateSecret}
	require.NoError(w, w.client.Get(w.Context(), name, &secret))
	change(secret.Data)
	require.NoError(w, w.client.Update(w.Context(), &secret))
}
