package pull

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

func TestBundleIsFrozenWhenExpiredOrNoLongerTrusted(t *testing.T) {
	w := newWorld(t)
	// old is the root of trust when the bundle was accepted.
	var old trust.Root
	for name, c := range map[string]struct {
		change func()
		want   string
	}{
		"unchanged": {func() {}, ""},
		"expired":   {func() { w.now = w.now.Add(2 * time.Hour) }, "the last accepted bundle expired"},
		"next root with the same keys": {
			func() {
				w.publishRoot(func(draft *trust.RootDraft) { draft.SetFloor("kyma-project.io/module/keda", "1.0.0") })
			},
			"",
		},
		"revoked publisher key": {w.rotate, "does not list key"},
		"new epoch": {
			func() { w.publishRoot(func(draft *trust.RootDraft) { draft.SetEpoch(old.Epoch + 1) }) }, "has epoch",
		},
		"minimum version above the agent's image": {
			func() {
				w.publishRoot(func(draft *trust.RootDraft) { draft.SetFloor("kyma-pull.dev/skr-agent", "9.0.0") })
			},
			"refuses the last accepted bundle",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.T = t
			w.settings.Agent = "registry.example/skr-agent:1.0.0@sha256:" +
				"0000000000000000000000000000000000000000000000000000000000000000"
			w.begin("frozen-" + t.Name()[len(t.Name())-3:])
			old = w.root
			w.publish()
			_, err := w.puller.Pull(t.Context())
			require.NoError(t, err)
			require.Empty(t, w.puller.FrozenReason(t.Context()))
			c.change()
			_, err = w.puller.Pull(t.Context())
			require.NoError(t, err)
			require.NotNil(t, w.puller.Current())
			check := func() {
				t.Helper()
				if got := w.puller.FrozenReason(t.Context()); c.want == "" {
					require.Empty(t, got)
				} else {
					require.Contains(t, got, c.want)
				}
			}
			check()
			w.restart()
			check()
			w.sequence += 10
			if w.root.Epoch == old.Epoch && name != "minimum version above the agent's image" {
				w.requireRecovered()
				require.Empty(t, w.puller.FrozenReason(t.Context()), "a newer bundle must not be frozen")
			}
		})
	}
}
