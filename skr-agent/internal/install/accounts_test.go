package install

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestAModuleThatIsNamedWithItsNamespaceHasItsOwnAccount(t *testing.T) {
	accounts, err := ParseAccounts([]string{"team/keda=installer"}, home)
	require.NoError(t, err)
	const user = "system:serviceaccount:kyma-system:installer"
	i := &Installer{Options: Options{Accounts: accounts}, actors: map[string]*actor{"": {}, user: {user: user}}}
	m := &v1beta2.Manifest{}
	m.Name, m.Labels = "team-keda", map[string]string{v1beta2.LabelModuleName: "team-keda"}
	m.Annotations = map[string]string{v1beta2.AnnotationModule: "team/keda"}
	require.Equal(t, user, i.actor(m).user)
	require.NotContains(t, i.owner(m).module, "/", "no label takes it")
	m.Annotations[v1beta2.AnnotationModule] = "team/other"
	require.Empty(t, i.actor(m).user)
}

func TestAccountsAreTheOperatorsChoice(t *testing.T) {
	a, err := ParseAccounts([]string{"modules", "keda=keda-system/installer", "istio="}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:keda-system:installer", a.of("keda", "keda"))
	require.Equal(t, "", a.of("istio", "istio"), "with the agent's own rights")
	require.Equal(t, "system:serviceaccount:kyma-system:modules", a.of("any other", "any other"))
	a, err = ParseAccounts([]string{"keda=installer"}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:kyma-system:installer", a.of("keda", "keda"))
	require.Equal(t, "", a.of("any other", "any other"), "with the agent's own rights")

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

func TestAModuleOfANamespaceIsFoundByItsLabelToo(t *testing.T) {
	a, err := ParseAccounts([]string{"team-keda=by-label"}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:kyma-system:by-label", a.of("team/keda", "team-keda"))
	a, err = ParseAccounts([]string{"team-keda=by-label", "team/keda=by-name"}, home)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:kyma-system:by-name", a.of("team/keda", "team-keda"), "the name decides before the label")
}
