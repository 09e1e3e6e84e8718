package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

func TestKubernetesAPIGroupsAreNotCustom(t *testing.T) {
	for _, version := range clientgoscheme.Scheme.PrioritizedVersionsAllGroups() {
		if version.Group != "__internal" {
			require.False(t, IsCustomGroup(version.Group), version.Group)
		}
	}
	// client-go has no types for these groups.
	for _, group := range []string{"apiextensions.k8s.io", "apiregistration.k8s.io"} {
		require.False(t, IsCustomGroup(group), group)
	}
}

func TestAPIGroupsOutsideKubernetesAreCustom(t *testing.T) {
	for _, group := range []string{
		"gateway.networking.k8s.io", "snapshot.storage.k8s.io", "autoscaling.k8s.io", "metrics.k8s.io", "x-k8s.io",
		"cluster.x-k8s.io",
		"policy.networking.k8s.io", "example.org",
	} {
		require.True(t, IsCustomGroup(group), group)
	}
}
