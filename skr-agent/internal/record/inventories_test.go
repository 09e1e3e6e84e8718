package record

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestMissingInventoryEntriesAreFound(t *testing.T) {
	entry := func(version, kind string) v1beta2.Resource {
		return v1beta2.Resource{Name: "a", GroupVersionKind: metav1.GroupVersionKind{Version: version, Kind: kind}}
	}
	known, m := NewInventories(), manifest()
	known.Restore(m, []v1beta2.Resource{entry("v1beta1", "Job"), entry("v1", "Secret")})
	m.Status.Synced = []v1beta2.Resource{entry("v1", "Job"), entry("v1", "Pod")}
	require.Equal(t, []v1beta2.Resource{entry("v1", "Secret")}, known.Missing(m), "the version does not matter")

	known.Record(m)
	known.Restore(m, []v1beta2.Resource{entry("v1", "Secret")})
	require.Empty(t, known.Missing(m), "an inventory of an earlier process must not replace a newer one")

	m.Status.Synced = nil
	require.Len(t, known.Missing(m), 2)
	known.Forget(keyOf(m))
	require.Empty(t, known.Missing(m))
	require.Empty(t, (*Inventories)(nil).Missing(m))
}
