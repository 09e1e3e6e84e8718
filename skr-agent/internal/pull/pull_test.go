package pull

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
)

func TestRefusedBundleWritesNothing(t *testing.T) {
	w := newWorld(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	attacks := []struct {
		name  string
		lie   func()
		wants []refusal.Reason
	}{
		{
			"older bundle",
			func() { w.put(w.made[random.IntN(len(w.made)-1)]) },
			[]refusal.Reason{refusal.Rollback, refusal.UnknownKey},
		},
		{
			"bundle signed with an unknown key",
			func() { w.signed(newKey(t), func(*bundle.Predicate) {}) },
			[]refusal.Reason{refusal.UnknownKey},
		},
		{
			"bundle of another runtime",
			func() { w.signed(w.publisher, func(p *bundle.Predicate) { p.Audience.Runtime = "paris" }) },
			[]refusal.Reason{refusal.WrongRuntime},
		},
		{"expired bundle", func() {
			w.signed(w.publisher, func(p *bundle.Predicate) {
				p.IssuedAt, p.ExpiresAt = w.now.Add(-2*time.Hour), w.now.Add(-time.Hour)
			})
		}, []refusal.Reason{refusal.Expired}},
		{
			"another bundle with the same sequence",
			func() { w.signed(w.publisher, func(p *bundle.Predicate) { p.Sequence-- }) },
			[]refusal.Reason{refusal.Equivocation},
		},
	}
	want := w.publish()
	for range 2 {
		_, err := w.puller.Pull(t.Context())
		require.NoError(t, err)
		want = w.publish()
	}
	_, err := w.puller.Pull(t.Context())
	require.NoError(t, err)
	for step := range 60 {
		switch n := random.IntN(10); {
		case n == 0:
			w.rotate()
			want = w.publish()
			taken, err := w.puller.Pull(t.Context())
			require.NoError(t, err, "step %d: a rotated key must be accepted", step)
			require.True(t, taken)
			require.Empty(t, w.puller.RefusedBundles(), "a rotated key must not be refused")
		case n <= 2:
			want = w.publish()
			taken, err := w.puller.Pull(t.Context())
			require.NoError(t, err, "step %d: a newer bundle must be accepted", step)
			require.True(t, taken)
		case n == 3:
			accepted, root := w.puller.accepted, w.puller.Root().Version
			w.restart()
			require.Equal(t, accepted, w.puller.accepted)
			require.Equal(t, root, w.puller.Root().Version)
		default:
			attack := attacks[random.IntN(len(attacks))]
			before := w.kept()
			attack.lie()
			_, err := w.puller.Pull(t.Context())
			refusal := refusal.Of(err)
			require.NotNil(t, refusal, "step %d: %s must be refused, got error %v", step, attack.name, err)
			require.True(t, slices.Contains(attack.wants, refusal.Reason), "step %d: %s: got %v, want %v", step,
				attack.name, refusal, attack.wants)
			require.Equal(t, before, w.kept(), "step %d: a refused %s must not be saved", step, attack.name)
			require.NotEmpty(t, w.puller.RefusedBundles())
		}
		require.Equal(t, want, inForce(w.puller), "step %d: the newest valid bundle must be the last accepted", step)
	}
}

func TestPreviewVerifiesWithoutWriting(t *testing.T) {
	w := newWorld(t)
	preview := func(thumbprint string) *Puller {
		p := New(Options{
			ConfiguredLocation: w.place, Client: &failingClient{Client: w.client}, Namespace: w.namespace,
			Store: contentstore.New(w.client, &failingClient{Client: w.client}, w.namespace), Preview: true,
			Trust: bundle.Trust{
				Root:          w.pinned,
				Runtime:       runtimeID,
				KeyThumbprint: thumbprint,
			}, Now: func() time.Time { return w.now }, Key: w.agentKey,
		})
		require.NoError(t, p.Restore(t.Context()))
		return p
	}
	old := w.publish()
	p := preview("mine")
	changed, err := p.Pull(t.Context())
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, old, inForce(p))
	require.Empty(t, w.kept(), "a preview must not save state")

	w.rotate()
	w.publish()
	_, err = w.puller.Pull(t.Context())
	require.NoError(t, err)
	before := w.kept()
	p = preview("mine")
	changed, err = p.Pull(t.Context())
	require.NoError(t, err)
	require.False(t, changed, "the last accepted bundle must not be accepted again")
	require.EqualValues(t, 2, p.Root().Version)

	w.signed(w.publisher, func(p *bundle.Predicate) { p.Sequence = 1 })
	_, err = preview("mine").Pull(t.Context())
	require.NotNil(t, refusal.Of(err), "a bundle older than the saved one must be refused, got error %v", err)
	require.Equal(t, refusal.Rollback, refusal.Of(err).Reason)

	w.signed(w.publisher, func(p *bundle.Predicate) { p.Audience.KeyThumbprint = "another" })
	_, err = preview("mine").Pull(t.Context())
	require.NotNil(t, refusal.Of(err), "a bundle for another key must be refused, got error %v", err)
	require.Equal(t, refusal.WrongCluster, refusal.Of(err).Reason)
	require.Equal(t, before, w.kept(), "a preview must not save state")
}

// The agent crashes before each of its writes, with and without a newer root of trust.
func TestCrashDuringAcceptanceKeepsOneCompleteBundle(t *testing.T) {
	w := newWorld(t)
	for name, rotated := range map[string]bool{"unchanged root": false, "newer root": true} {
		t.Run(name, func(t *testing.T) {
			w.begin(map[bool]string{false: "plain", true: "rotated"}[rotated])
			old := w.publish()
			_, err := w.puller.Pull(t.Context())
			require.NoError(t, err)
			if rotated {
				w.rotate()
			}
			next := w.publish()
			died := 0
			for writes := 0; ; writes++ {
				_, err := w.started(&failingClient{w.client, writes}).Pull(t.Context())
				restarted := w.started(w.client)
				if err == nil {
					require.Equal(t, next, inForce(restarted))
					break
				}
				require.ErrorIs(t, err, errDied)
				died++
				require.Equal(t, old, inForce(restarted), "old bundle must be restored after %d writes", writes)
			}
			require.GreaterOrEqual(t, died, 2, "documents and state must be separate writes")
		})
	}
}

// Cluster users can edit the Secret with the saved state.
func TestTamperedStateIsNotRestored(t *testing.T) {
	w := newWorld(t)
	w.publish()
	_, err := w.puller.Pull(t.Context())
	require.NoError(t, err)
	for name, change := range map[string]func(data map[string][]byte){
		"manifest changed": func(data map[string][]byte) { data[stateManifest][len(data[stateManifest])/2] ^= 1 },
		"root changed":     func(data map[string][]byte) { data[stateBundleRoot][len(data[stateBundleRoot])/2] ^= 1 },
		"state invalid":    func(data map[string][]byte) { data[stateAccepted] = []byte("{") },
	} {
		t.Run(name, func(t *testing.T) {
			var secret corev1.Secret
			require.NoError(t,
				w.client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: StateSecret}, &secret))
			before := secret.DeepCopy()
			change(secret.Data)
			require.NoError(t, w.client.Update(t.Context(), &secret))
			p := New(w.puller.Options)
			require.Error(t, p.Restore(t.Context()))
			require.Nil(t, p.Current())
			before.ResourceVersion = secret.ResourceVersion
			require.NoError(t, w.client.Update(t.Context(), before))
		})
	}
}

func (w *world) reported() int64 {
	w.Helper()
	sequence, err := w.puller.ReportedSequence(w.Context())
	require.NoError(w, err)
	return sequence
}

func TestStandbyReportDoesNotRevertBundle(t *testing.T) {
	w := newWorld(t)
	w.publish()
	_, err := w.puller.Pull(t.Context())
	require.NoError(t, err)
	standby := New(w.puller.Options)
	require.NoError(t, standby.Restore(t.Context()))

	w.publish()
	_, err = w.puller.Pull(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.puller.SaveReported(t.Context(), 9, "one"))
	newest := inForce(w.puller)
	last, err := standby.ReportedSequence(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, last, int64(9), "the standby must continue from the leader's sequence")
	require.NoError(t, standby.SaveReported(t.Context(), last+1, "one"))
	require.NoError(t, standby.Restore(t.Context()), "the standby must restore the state when it becomes the leader")
	require.Equal(t, newest, inForce(standby))
	w.restart()
	require.Equal(t, newest, inForce(w.puller), "the standby must restore the leader's bundle")
	require.Greater(t, w.reported(), last)
}

func TestReportSequenceSurvivesRestart(t *testing.T) {
	w := newWorld(t)
	require.Zero(t, w.reported())
	require.NoError(t, w.puller.SaveReported(t.Context(), 7, "one"), "the sequence must be saved before the first bundle")
	w.restart()
	first := w.reported()
	require.GreaterOrEqual(t, first, int64(7))

	w.publish()
	_, err := w.puller.Pull(t.Context())
	require.NoError(t, err)
	w.restart()
	require.GreaterOrEqual(t, w.reported(), first, "an accepted bundle must not lower the sequence")
	require.NoError(t, w.puller.SaveReported(t.Context(), first+1, "one"))
	w.restart()
	require.Greater(t, w.reported(), first)
	require.Equal(t, w.made[0].Descriptor.Digest, inForce(w.puller), "a saved sequence must not change the bundle")

	var secret corev1.Secret
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: StateSecret}, &secret))
	secret.Data[stateReported] = []byte("seven")
	require.NoError(t, w.client.Update(t.Context(), &secret))
	p := New(w.puller.Options)
	require.ErrorContains(t, p.Restore(t.Context()), "skr-agent-state: report-sequence: ")
	require.Equal(t, w.made[0].Descriptor.Digest, inForce(p), "an invalid sequence must not affect the bundle")
}

func TestLastReporterSurvivesRestart(t *testing.T) {
	w := newWorld(t)
	reporter := func() string {
		w.reported()
		return w.puller.LastReporter()
	}
	require.Empty(t, reporter())
	require.NoError(t, w.puller.SaveReported(t.Context(), 7, "first"))
	w.publish()
	_, err := w.puller.Pull(t.Context())
	require.NoError(t, err)
	w.restart()
	require.Equal(t, "first", reporter(), "an accepted bundle must not remove the reporter")
	require.NoError(t, w.puller.SaveReported(t.Context(), 8, "second"))
	w.restart()
	require.Equal(t, "second", reporter(), "another reporter must be saved immediately")
}

func TestReportSequencesAreSavedOncePerMinute(t *testing.T) {
	w := newWorld(t)
	w.publish()
	counted := &counting{Client: w.client}
	puller := w.started(counted)
	_, err := puller.Pull(t.Context())
	require.NoError(t, err)
	start := w.puller.Now()
	now := start
	puller.Now = func() time.Time { return now }
	counted.gets.Store(0)
	counted.updates.Store(0)
	var sequence int64
	send := func() {
		t.Helper()
		sequence = bundle.NextReportSequence(sequence, now, time.Time{})
		require.NoError(t, puller.SaveReported(t.Context(), sequence, "one"))
		require.GreaterOrEqual(t, w.reported(), sequence, "a restarted agent must continue after the last report")
	}
	for range 60 {
		send()
		now = now.Add(time.Second)
	}
	require.EqualValues(t, 1, counted.updates.Load())
	now = now.Add(time.Second)
	send()
	require.EqualValues(t, 2, counted.updates.Load())
	require.Zero(t, counted.gets.Load(), "the agent must update the Secret that it wrote last")

	w.publish()
	_, err = puller.Pull(t.Context())
	require.NoError(t, err)
	counted.updates.Store(0)
	now = now.Add(30 * time.Second)
	send()
	require.Zero(t, counted.updates.Load(), "the write of an accepted bundle covers the next reports")

	restarted := func() int64 {
		t.Helper()
		puller = w.started(w.client)
		puller.Now = func() time.Time { return now }
		sequence, err := puller.ReportedSequence(t.Context())
		require.NoError(t, err)
		return sequence
	}
	last := sequence
	require.LessOrEqual(t, restarted(), last, "a restarted agent must follow the clock")
	now = start
	require.GreaterOrEqual(t, restarted(), last, "after a clock change, the agent must continue after its reports")
}

func TestClusterMirrorsOverrideBundleMirrors(t *testing.T) {
	puller := New(Options{
		Mirrors: map[string]string{"docker.io": "own.example/hub", "ghcr.io/team": "own.example/team"},
	})
	settings := bundle.Settings{Mirrors: map[string]string{
		"docker.io": "evil.example", "index.docker.io/library": "evil.example",
		"docker.io/library/nginx": "evil.example",
		"ghcr.io":                 "mirror.example/ghcr", "quay.io": "mirror.example/quay",
	}}
	followed := puller.withClusterMirrors(bundle.Bundle{State: bundle.DesiredState{Settings: settings}}).State.Settings
	for image, want := range map[string]string{
		"docker.io/library/nginx": "own.example/hub/library/nginx",
		"docker.io/grafana/loki":  "own.example/hub/grafana/loki",
		"ghcr.io/team/app":        "own.example/team/app",
		"ghcr.io/other/app":       "mirror.example/ghcr/other/app",
		"quay.io/app":             "mirror.example/quay/app",
	} {
		require.Equal(t, want, followed.MirroredName(image))
	}
	require.Len(t, settings.Mirrors, 5, "the mirrors of the bundle must not change")
}

func TestRefusedRootAndBundleAreRecordedOnce(t *testing.T) {
	m := newMoving(t)
	other := &world{T: t, rootKey: newKey(t), place: m.before}
	other.newFleet()
	other.publishRoot(func(*trust.RootDraft) {})
	m.signed(newKey(t), func(*bundle.Predicate) {})
	var first []bundle.RefusedBundle
	for poll := range 3 {
		_, err := m.puller.Pull(t.Context())
		require.NotNil(t, refusal.Of(err), "the bundle must be refused, got error %v", err)
		if poll == 0 {
			first = slices.Clone(m.puller.RefusedBundles())
			require.Len(t, first, 2)
		}
		require.Equal(t, first, m.puller.RefusedBundles())
		m.now = m.now.Add(time.Minute)
	}
}
