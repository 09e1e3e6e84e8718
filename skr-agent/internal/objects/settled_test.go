package objects

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestUnchangedObjectsAreNotComparedAgain(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	b := bundleOf(module("keda", "1.0.0"))
	w.sync(b)
	w.sync(b)
	manifest := &v1beta2.Manifest{}
	require.True(t, w.get(manifest, "keda"))
	require.True(t, w.settled.isSettled("Manifest", manifest))

	t.Log("a changed Manifest is corrected")
	manifest.Spec.Version = "0.0.1"
	manifest.Labels[v1beta2.LabelChannel] = "other"
	require.NoError(t, cluster.Update(ctx, manifest))
	require.False(t, w.settled.isSettled("Manifest", manifest))
	w.sync(b)
	require.True(t, w.get(manifest, "keda"))
	require.Equal(t, "1.0.0", manifest.Spec.Version)

	t.Log("a deleted Manifest is restored, and a new bundle is compared again")
	w.sync(b)
	require.True(t, w.get(manifest, "keda"))
	require.True(t, w.settled.isSettled("Manifest", manifest))
	require.NoError(t, cluster.Delete(ctx, manifest))
	w.sync(b)
	require.True(t, w.get(manifest, "keda"))
	w.sync(b)
	w.sync(bundleOf(module("keda", "1.1.0")))
	require.True(t, w.get(manifest, "keda"))
	require.Equal(t, "1.1.0", manifest.Spec.Version)
}
