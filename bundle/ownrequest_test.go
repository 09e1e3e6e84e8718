package bundle

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestRequestsCannotChangeMandatoryModules(t *testing.T) {
	mandatory := func(module string) bool { return module == "watcher" }
	own := LimitRequest([]v1beta2.Module{
		{Name: "keda", Managed: true, Channel: "fast"},
		{Name: "watcher"},
		{Name: "watcher", Managed: true, CustomResourcePolicy: v1beta2.PolicyIgnore},
		{Name: "watcher", Managed: true, Channel: "regular"},
		{Name: "keda"},
	}, mandatory)
	require.Equal(t, []v1beta2.Module{{Name: "keda", Managed: true, Channel: "fast"}}, own.Modules)
	require.Len(t, own.Ignored, 1)
	require.Contains(t, own.Ignored[0].Message, "module watcher is mandatory")
	require.Equal(t, v1beta2.StateWarning, own.Ignored[0].State)
	require.True(t, own.Contains("keda"))
	require.False(t, own.Contains("watcher"))
	require.Equal(t, v1beta2.PolicyCreateAndDelete, own.PolicyFor("watcher"))
}
