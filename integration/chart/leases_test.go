package chart

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/internal/manager"
)

// The Role must allow the Lease names that the publisher uses.
func TestRolesAllowTheLeaseNamesForASelector(t *testing.T) {
	const base = "kcp-publisher.kyma-pull.dev"
	// The hash of shard=2 consists of digits.
	for _, selector := range []string{"", "sharding.fluxcd.io/shard=one", "shard=2"} {
		r := release(t, "kcp-publisher", map[string]any{"location": "registry.example/fleet", "shards": 3,
			"keys": map[string]any{"secretName": "keys"}, "watchLabelSelector": selector})
		got := map[string][]string{}
		for _, o := range objectsOf(t, r) {
			rules, _, err := unstructured.NestedSlice(o.Object, "rules")
			require.NoError(t, err)
			for _, rule := range rules {
				names, _, err := unstructured.NestedStringSlice(rule.(map[string]any), "resourceNames")
				require.NoError(t, err)
				resources, _, err := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
				require.NoError(t, err)
				for _, kind := range []string{"leases", "configmaps"} {
					if slices.Contains(resources, kind) {
						got[kind] = append(got[kind], names...)
					}
				}
			}
		}
		name := manager.Identity(base, selector)
		require.ElementsMatch(t, []string{name, name + "-shard-0", name + "-shard-1", name + "-shard-2"}, got["leases"],
			selector)
		require.ElementsMatch(t,
			[]string{name, name + "-approved", name + "-heard-0", name + "-heard-1", name + "-heard-2"},
			got["configmaps"], selector)
	}
}
