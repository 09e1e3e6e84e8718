package pull

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/pause"
)

// place is a location whose registry can be unavailable.
type place struct {
	store.Store
	name string
	// If down is true, the registry refuses connections. If hangs is true, it never responds.
	down, hangs bool
	// delay is the time until the registry responds to each read.
	delay time.Duration
	reads int
}

func newPlace(t *testing.T, name string) *place {
	t.Helper()
	folder, err := store.Open(store.LayoutScheme+t.TempDir(), nil)
	require.NoError(t, err)
	return &place{Store: folder, name: name}
}

func (p *place) String() string { return p.name }

func (p *place) Reading(ctx context.Context, repository string) (store.Reader, error) {
	p.reads++
	switch {
	case p.hangs:
		<-ctx.Done()
		return nil, ctx.Err()
	case p.down:
		return nil, errors.New("connection refused")
	case !pause.Sleep(ctx, p.delay):
		return nil, ctx.Err()
	}
	return p.Store.Reading(ctx, repository)
}

// moving is a fleet whose registry moves.
type moving struct {
	*world
	before, after *place
}

func newFakeClient(t *testing.T) client.Client {
	t.Helper()
	known := runtime.NewScheme()
	require.NoError(t, errors.Join(scheme.AddToScheme(known), v1beta2.AddToScheme(known)))
	return fake.NewClientBuilder().WithScheme(known).Build()
}

func newMoving(t *testing.T) moving {
	t.Helper()
	registries, err := store.NewRegistries(store.Access{})
	require.NoError(t, err)
	m := moving{
		world:  &world{T: t, rootKey: newKey(t), agentKey: newKey(t), namespace: "kyma-system", registries: registries},
		before: newPlace(t, "before.example/fleet"), after: newPlace(t, "after.example/fleet"),
	}
	m.client = newFakeClient(t)
	m.open = func(name string, _ *store.Registries) (store.Store, error) {
		for _, p := range []*place{m.before, m.after} {
			if p.name == name {
				return p, nil
			}
		}
		return nil, errors.New("no such location")
	}
	m.newFleet()
	m.place = m.before
	require.NoError(t, store.PushRoot(t.Context(), m.before, m.root))
	m.restart()
	return m
}

// newMoved returns a fleet whose agent uses the announced location.
func newMoved(t *testing.T) moving {
	t.Helper()
	m := newMoving(t)
	m.announce()
	m.pushTo(m.before)
	m.pull(true, m.before)
	m.pushTo(m.after)
	m.pull(true, m.after)
	return m
}

func (m moving) announce() { m.settings.NextRegistry = &bundle.NextRegistry{Location: m.after.name} }

func (m moving) pushTo(p *place) {
	m.Helper()
	m.place = p
	m.publish()
	m.place = m.before
}

func (m moving) pull(wantChanged bool, at *place) {
	m.Helper()
	changed, err := m.puller.Pull(m.Context())
	require.NoError(m, err)
	require.Equal(m, wantChanged, changed)
	require.Equal(m, at.name, m.puller.Location().String())
	require.Empty(m, m.puller.RefusedBundles())
}

func TestAgentUsesAnnouncedLocation(t *testing.T) {
	m := newMoving(t)
	m.pushTo(m.before)
	m.pull(true, m.before)
	m.announce()
	m.pushTo(m.before)
	m.pull(true, m.before)
	m.pull(false, m.before)

	m.pushTo(m.after)
	m.pull(true, m.after)
	m.restart()
	m.pull(false, m.after)
	require.Equal(t, m.sequence, m.puller.Current().Statement.Predicate.Sequence)

	m.before.down = true
	m.pushTo(m.after)
	m.pull(true, m.after)

	// The announcement ended before the operator configured the new location.
	m.settings.NextRegistry = nil
	m.pushTo(m.after)
	m.pull(true, m.after)
	m.restart()
	m.pull(false, m.after)

	m.before.down, m.after.down = false, true
	m.pushTo(m.before)
	m.pull(true, m.before)
}

func TestAgentIgnoresOldBundleInItsPreviousRegistry(t *testing.T) {
	m := newMoved(t)
	m.puller.location.current = m.place
	require.NoError(t, m.puller.Save(t.Context()))
	m.restart()
	require.Equal(t, m.before.name, m.puller.Location().String(),
		"the configured location must be in use without a saved location")
	m.pull(false, m.after)
}

func TestConfiguredLocationOverridesSavedOne(t *testing.T) {
	m := newMoved(t)
	third := newPlace(t, "third.example/fleet")
	m.place = third
	m.restart()
	require.Equal(t, third.name, m.puller.Location().String())
}

func TestUnresponsiveRegistryIsPolledLessOften(t *testing.T) {
	m := newMoving(t)
	m.puller.location.responseTimeout = time.Millisecond
	m.announce()
	m.pushTo(m.before)
	m.after.hangs = true
	m.pull(true, m.before)
	for range 5 {
		m.pull(false, m.before)
	}
	require.Equal(t, 1, m.after.reads)
	m.now = m.now.Add(skipInterval + time.Second)
	m.pull(false, m.before)
	require.Equal(t, 2, m.after.reads)

	m.before.down, m.after.hangs = true, false
	m.pushTo(m.after)
	m.puller.location.responseTimeout = otherLocationTimeout
	m.pull(true, m.after)
}

func TestAgentMovesToASlowRegistry(t *testing.T) {
	for name, isDown := range map[string]bool{"old registry works": false, "old registry is gone": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMoving(t)
				m.announce()
				m.pushTo(m.before)
				m.pull(true, m.before)
				m.before.down, m.after.delay = isDown, otherLocationTimeout*6/10
				m.pushTo(m.after)
				m.pull(true, m.after)
			})
		})
	}
}

func TestFolderIgnoresAnnouncedLocation(t *testing.T) {
	w := &world{T: t, rootKey: newKey(t), agentKey: newKey(t), namespace: "kyma-system"}
	w.client = newFakeClient(t)
	w.newFleet()
	var err error
	w.place, err = store.Open(store.LayoutScheme+t.TempDir(), nil)
	require.NoError(t, err)
	require.NoError(t, store.PushRoot(t.Context(), w.place, w.root))
	w.restart()
	w.settings.NextRegistry = &bundle.NextRegistry{Location: "after.example/fleet"}
	w.publish()
	changed, err := w.puller.Pull(t.Context())
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, w.place.String(), w.puller.Location().String())
}

// The former control plane announced a location. The next control plane, which an operator rebuilt after a theft of all
// keys, uses the configured location.
func TestAgentIgnoresLocationFromFormerControlPlane(t *testing.T) {
	m := newMoved(t)

	m.settings.NextRegistry = nil
	m.before.Store = newPlace(t, "").Store
	m.newFleet()
	require.NoError(t, store.PushRoot(t.Context(), m.before, m.root))
	m.puller = m.unrestored(m.client)
	m.puller.AllowsMove, m.puller.Trust.Assigned.TokenExpires = true, m.now.Unix()
	require.NoError(t, m.puller.Restore(t.Context()))
	require.Equal(t, m.before.name, m.puller.Location().String())
	m.after.reads = 0
	_, err := m.puller.Pull(t.Context())
	require.ErrorIs(t, err, store.ErrNotFound)
	m.pushTo(m.before)
	m.pull(true, m.before)
	require.Zero(t, m.after.reads, "the agent read the former control plane's location")
}

func TestAgentRefusesOlderBundleAfterMoveInFleet(t *testing.T) {
	for name, isRotated := range map[string]bool{"unchanged root of trust": false, "newer root of trust": true} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			m.pushTo(m.before)
			m.pull(true, m.before)
			if isRotated {
				m.publishRoot(func(*trust.RootDraft) {})
			}
			m.pushTo(m.before)
			m.pull(true, m.before)

			m.puller = m.unrestored(m.client)
			m.puller.AllowsMove, m.puller.Trust.Assigned.TokenExpires = true, m.now.Unix()
			require.NoError(t, m.puller.Restore(t.Context()))
			require.Equal(t, m.root.Version, m.puller.Root().Version)
			m.put(m.made[0])
			_, err := m.puller.Pull(t.Context())
			require.NotNil(t, refusal.Of(err), "the older bundle must be refused, got error %v", err)
			require.Equal(t, refusal.Rollback, refusal.Of(err).Reason)
			require.Nil(t, m.puller.Current())

			m.put(m.made[1])
			m.pull(true, m.before)
		})
	}
}

func TestFormerRegistryCannotTakeAgentsBack(t *testing.T) {
	m := newMoved(t)
	m.put(m.made[len(m.made)-1]) // the former registry has a copy of the newest bundle
	m.after.down = true
	changed, err := m.puller.Pull(t.Context())
	require.Error(t, err)
	require.False(t, changed)
	require.Equal(t, m.after.name, m.puller.Location().String())
}
