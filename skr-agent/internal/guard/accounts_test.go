package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOperatorsChooseTheAccountsOfModules(t *testing.T) {
	a, err := ParseAccounts([]string{"modules", "keda=keda-system/installer", "istio="}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:keda-system:installer", a.Of("keda", "keda"))
	require.Equal(t, "", a.Of("istio", "istio"), "with the agent's own rights")
	require.Equal(t, "system:serviceaccount:kyma-system:modules", a.Of("any other", "any other"))
	a, err = ParseAccounts([]string{"keda=installer"}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:kyma-system:installer", a.Of("keda", "keda"))
	require.Equal(t, "", a.Of("any other", "any other"), "with the agent's own rights")

	for name, c := range map[string]struct {
		settings []string
		want     string
	}{
		"two accounts for all":      {[]string{"a", "b"}, `"b": a second account for all modules`},
		"two accounts for one":      {[]string{"m=a", "m="}, `"m=": a second account for module m`},
		"an account without module": {[]string{"=a"}, "no module before the ="},
		"another user's name":       {[]string{"system:admin"}, `service account "system:admin"`},
		"a namespace that is none":  {[]string{"m=a.b/c"}, `namespace "a.b"`},
		"a namespace without name":  {[]string{"m=a/"}, `service account ""`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseAccounts(c.settings, home)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestModuleIsFoundByItsNamespaceLabel(t *testing.T) {
	a, err := ParseAccounts([]string{"team-keda=by-label"}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:kyma-system:by-label", a.Of("team/keda", "team-keda"))
	a, err = ParseAccounts([]string{"team-keda=by-label", "team/keda=by-name"}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:kyma-system:by-name", a.Of("team/keda", "team-keda"),
		"the name decides before the label")
}
