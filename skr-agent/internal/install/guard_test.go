package install

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
)

func TestModuleNameWithNamespaceSelectsAccount(t *testing.T) {
	accounts, err := guard.ParseAccounts([]string{"team/keda=installer"}, home)
	require.NoError(t, err)
	const user = "system:serviceaccount:kyma-system:installer"
	i := &Installer{Options: Options{Accounts: accounts}, actors: map[string]*account.Account{"": {}, user: {User: user}}}
	m := &v1beta2.Manifest{}
	m.Name, m.Labels = "team-keda", map[string]string{v1beta2.LabelModuleName: "team-keda"}
	m.Annotations = map[string]string{v1beta2.AnnotationModule: "team/keda"}
	require.Equal(t, user, i.actor(m).User)
	require.NotContains(t, i.owner(m).Module, "/", "the module label must not contain a slash")
	m.Annotations[v1beta2.AnnotationModule] = "team/other"
	require.Empty(t, i.actor(m).User)
}
