package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAccountSettingsSelectModuleAccounts(t *testing.T) {
	a, err := ParseAccounts([]string{"modules", "keda=keda-system/installer", "istio="}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:keda-system:installer", a.UserFor("keda", "keda"))
	require.Equal(t, "", a.UserFor("istio", "istio"), "must use the agent's own permissions")
	require.Equal(t, "system:serviceaccount:kyma-system:modules", a.UserFor("any other", "any other"))
	a, err = ParseAccounts([]string{"keda=installer"}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:kyma-system:installer", a.UserFor("keda", "keda"))
	require.Equal(t, "", a.UserFor("any other", "any other"), "must use the agent's own permissions")

	for name, c := range map[string]struct {
		settings []string
		want     string
	}{
		"two accounts for all modules":           {[]string{"a", "b"}, `"b": duplicate account for all modules`},
		"two accounts for one module":            {[]string{"m=a", "m="}, `"m=": duplicate account for module m`},
		"account without a module name":          {[]string{"=a"}, "module name before = is missing"},
		"user name instead of a service account": {[]string{"system:admin"}, `service account "system:admin"`},
		"invalid namespace":                      {[]string{"m=a.b/c"}, `namespace "a.b"`},
		"namespace without an account name":      {[]string{"m=a/"}, `service account ""`},
		"account that Kubernetes uses":           {[]string{"m=kube-system/x"}, "kube-system/x belongs to Kubernetes"},
		"account that the agent uses":            {[]string{"skr-agent"}, "kyma-system/skr-agent belongs to"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseAccounts(c.settings, home)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestAccountSettingMatchesModuleNameOrLabel(t *testing.T) {
	a, err := ParseAccounts([]string{"team-keda=by-label"}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:kyma-system:by-label", a.UserFor("team/keda", "team-keda"))
	a, err = ParseAccounts([]string{"team-keda=by-label", "team/keda=by-name"}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:kyma-system:by-name", a.UserFor("team/keda", "team-keda"),
		"the name must take precedence over the label")
}
