package objects

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestAgentMemoryKeepsInventoryEntriesRemovedByOthers(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	deleteMemory(t)
	newRestorer := func() *Restorer {
		_, inventories, err := ReadSavedRecords(ctx, cluster, w.Records.Signer)
		require.NoError(t, err)
		return &Restorer{
			Client: cluster, Uncached: cluster, Signer: w.Records.Signer, Inventories: inventories,
		}
	}
	w.Restorer = newRestorer()
	b := bundleOf(module("keda", "1.0.0"))
	w.sync(b)
	m, list := &v1beta2.Manifest{}, []v1beta2.Resource{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	write := func(synced ...v1beta2.Resource) {
		require.True(t, w.get(m, "keda"))
		m.Status.Synced, m.Status.State = synced, v1beta2.StateReady
		require.NoError(t, cluster.Status().Update(ctx, m))
	}
	restart := func(synced ...v1beta2.Resource) []v1beta2.Resource {
		_, err := w.Restorer.Restore(ctx, b)
		require.NoError(t, err)
		w.Restorer = newRestorer()
		write(synced...)
		return w.Restorer.Inventories.Missing(m)
	}
	write(list...)
	w.Restorer.Inventories.Record(m) // as the installer does
	write(list[0])
	require.Equal(t, list[1:], restart(list[0]), "the agent is stopped after it saw the edited inventory")
	require.Equal(t, list[:2], restart(list[2]), "the agent stops again before the installer runs")

	w.Restorer.Inventories.Record(m)
	require.Equal(t, list[2:], restart(), "the installer removed the other objects from the inventory")
}
