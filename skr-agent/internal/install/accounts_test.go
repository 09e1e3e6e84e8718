package install

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAccountsAreTheOperatorsChoice(t *testing.T) {
	a, err := ParseAccounts([]string{"modules", "keda=keda-system/installer", "istio="}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:keda-system:installer", a.of("keda"))
	require.Equal(t, "", a.of("istio"), "with the agent's own rights")
	require.Equal(t, "system:serviceaccount:kyma-system:modules", a.of("any other"))
	a, err = ParseAccounts([]string{"keda=installer"}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:kyma-system:installer", a.of("keda"))
	require.Equal(t, "", a.of("any other"), "with the agent's own rights")

	for name, c := range map[string]struct {
		settings []string
		want     string
	}{
		"two accounts for all":      {[]string{"a", "b"}, `"b": there is an account for all modules already`},
		"two accounts for one":      {[]string{"m=a", "m="}, `"m=": module m has an account already`},
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
