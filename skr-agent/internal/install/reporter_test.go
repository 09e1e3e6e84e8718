package install

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// The response to a status patch contains the inventory that the API server stores. If the agent recorded this
// inventory as its own, it would never restore the entries that another client removed while the reconciliation was
// running.
func TestInventoryClearedDuringReconciliationIsRestored(t *testing.T) {
	ctx, scheme := t.Context(), runtime.NewScheme()
	require.NoError(t, v1beta2.AddToScheme(scheme))
	inventory := []v1beta2.Resource{{Name: "one"}, {Name: "two"}}
	m := &v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "sample"}}
	m.Status.Synced = inventory
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(m).WithObjects(m).Build()
	rp, inventories := &reporter{cluster: api, now: time.Now}, record.NewInventories()
	read := &v1beta2.Manifest{}
	require.NoError(t, api.Get(ctx, client.ObjectKeyFromObject(m), read))

	cleared := read.DeepCopy()
	cleared.Status.Synced = nil
	require.NoError(t, api.Status().Patch(ctx, cleared, client.MergeFrom(read)))
	require.NoError(t, rp.writeStatus(ctx, read, outcome.Outcome{State: v1beta2.StateReady, Inventory: inventory}))
	inventories.Record(read)

	next := &v1beta2.Manifest{}
	require.NoError(t, api.Get(ctx, client.ObjectKeyFromObject(m), next))
	require.Empty(t, next.Status.Synced)
	require.Equal(t, inventory, inventories.Missing(next))
	require.NoError(t, rp.restoreInventory(ctx, next, inventories.Missing(next)))
	require.NoError(t, api.Get(ctx, client.ObjectKeyFromObject(m), next))
	require.Equal(t, inventory, next.Status.Synced)
}

// The status of a new Manifest has no state. The API server refuses a status without a state, so the agent must also
// set the state when it restores the inventory.
func TestRestoringInventorySetsStateOfNewManifest(t *testing.T) {
	ctx, scheme := t.Context(), runtime.NewScheme()
	require.NoError(t, v1beta2.AddToScheme(scheme))
	m := &v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "sample"}}
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(m).WithObjects(m).Build()
	rp := &reporter{cluster: api, now: time.Now}
	require.NoError(t, rp.restoreInventory(ctx, m, []v1beta2.Resource{{Name: "one"}}))
	require.NoError(t, api.Get(ctx, client.ObjectKeyFromObject(m), m))
	require.Equal(t, v1beta2.StateProcessing, m.Status.State)
	require.Equal(t, []v1beta2.Resource{{Name: "one"}}, m.Status.Synced)
}
