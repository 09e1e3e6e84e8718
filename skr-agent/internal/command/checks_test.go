package command

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/internal/checks/probe"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// The agent can have all permissions, but checks must not use them.
func TestChecksNeverHaveTheAgentsPermissions(t *testing.T) {
	const modules, keda = "system:serviceaccount:kyma-system:modules", "system:serviceaccount:keda:installer"
	for name, c := range map[string]struct {
		settings []string
		want     map[string]string // impersonated user by the account that installs the module
	}{
		"agent installs all modules": {nil, map[string]string{"": checksUser}},
		"account for all modules":    {[]string{"modules"}, map[string]string{modules: modules}},
		"agent installs one module": {
			[]string{"modules", "istio=", "keda=keda/installer"},
			map[string]string{"": checksUser, modules: modules, keda: keda},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var user string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				user = r.Header.Get("Impersonate-User")
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"kind":"ConfigMapList","apiVersion":"v1","items":[]}`)
			}))
			t.Cleanup(server.Close)
			accounts, err := guard.ParseAccounts(c.settings, "kyma-system")
			require.NoError(t, err)
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
			probers, err := newProbers(&rest.Config{Host: server.URL}, mapper, accounts)
			require.NoError(t, err)
			check := v1alpha1.Check{Name: "c", CEL: &v1alpha1.CELCheck{APIVersion: "v1", Kind: "ConfigMap", Expression: "true"}}
			d := checks.Definition{Check: check}
			d.Timeout.Duration = time.Minute
			for installer, want := range c.want {
				m := probers[installer].Measure(t.Context(), probe.Subject{}, d, "")
				require.Equal(t, checks.Success, m.Verdict, m.Message)
				require.Equal(t, want, user, "account %q installs the module", installer)
			}
		})
	}
}
