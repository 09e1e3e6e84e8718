package objects

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

func TestInheritedObjectsAreAddedToInventoryOnce(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	config := func(name string) bundle.ObjectRef {
		return bundle.ObjectRef{Version: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name}
	}
	keda := module("keda", "1.7.0")
	keda.Inherited = []bundle.ObjectRef{config("a"), config("b")}
	names := func() (names []string) {
		m := &v1beta2.Manifest{}
		require.True(t, w.get(m, "keda"))
		for _, r := range m.Status.Synced {
			names = append(names, r.Name)
		}
		return names
	}
	have := func(change func(*v1beta2.Manifest)) {
		m := &v1beta2.Manifest{}
		require.True(t, w.get(m, "keda"))
		before := m.DeepCopy()
		change(m)
		status := m.Status
		require.NoError(t, cluster.Patch(ctx, m, client.MergeFrom(before)))
		before, m.Status = m.DeepCopy(), status
		require.NoError(t, cluster.Status().Patch(ctx, m, client.MergeFrom(before)))
	}

	t.Log("inherited objects are added once, at creation")
	w.sync(bundleOf(keda))
	require.Equal(t, []string{"a", "b"}, names())
	m := &v1beta2.Manifest{}
	require.True(t, w.get(m, "keda"))
	require.False(t, record.ReadUnverified(m).Restoring)
	require.NotEmpty(t, w.Records.Read(m).Inherited)
	have(func(m *v1beta2.Manifest) { m.Status.Synced = m.Status.Synced[:1] })
	w.writes = 0
	w.sync(bundleOf(keda))
	require.Equal(t, []string{"a"}, names(), "a deleted object must not be inherited again")
	require.Zero(t, w.writes)

	t.Log("inherited objects are added after an interrupted creation and to an existing Manifest")
	have(func(m *v1beta2.Manifest) {
		require.NoError(t, w.Records.Set(m, record.Record{Restoring: true}))
	})
	w.sync(bundleOf(keda))
	require.Equal(t, []string{"a", "b"}, names())
	keda.Inherited = append(keda.Inherited, config("c"))
	w.sync(bundleOf(keda))
	require.Equal(t, []string{"a", "b", "c"}, names())

	t.Log("an outdated copy does not overwrite a newer inventory")
	stale := &v1beta2.Manifest{}
	require.True(t, w.get(stale, "keda"))
	have(func(m *v1beta2.Manifest) {
		m.Status.Synced = append(m.Status.Synced, v1beta2.Resource{
			Name: "new", Namespace: namespace,
			GroupVersionKind: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		})
	})
	require.NoError(t, w.Records.Set(stale, record.Record{Restoring: true}))
	require.ErrorContains(t, w.takeoverWriter().Inherit(ctx, stale, []bundle.ObjectRef{config("d")}),
		"the object has been modified")
	require.Contains(t, names(), "new")
}
