package install

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content/contenttest"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// withoutAutoscalers is a RoundTripper that denies requests from the agent's own account to list autoscalers.
type withoutAutoscalers struct{ http.RoundTripper }

func (d withoutAutoscalers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/horizontalpodautoscalers") {
		r = r.Clone(r.Context())
		r.Header.Set("Impersonate-User", "without-rights")
	}
	return d.RoundTripper.RoundTrip(r)
}

func TestReadsOutsideTheModuleUseTheAgentsAccount(t *testing.T) {
	accounts, err := guard.ParseAccounts([]string{"modules"}, home)
	require.NoError(t, err)
	w := newWorldWith(t, Options{Accounts: accounts})
	w.halt()
	w.config.Wrap(func(to http.RoundTripper) http.RoundTripper { return withoutAutoscalers{to} })
	w.start()
	writing := []string{"get", "create", "patch", "delete"}
	w.allows("modules", rule("", "persistentvolumeclaims", writing...), rule("apps", "deployments", writing...))
	require.NoError(t, w.client.Create(t.Context(), contenttest.Object(t, "apiVersion: storage.k8s.io/v1\n"+
		"kind: StorageClass\nmetadata: {name: reads-late}\nprovisioner: example.org/none\n"+
		"volumeBindingMode: WaitForFirstConsumer")))

	t.Log("a claim that waits for its first Pod is ready, although the module cannot read StorageClasses")
	w.wants("claim", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: claim}\nspec: {accessModes: "+
		"[ReadWriteOnce], storageClassName: reads-late, resources: {requests: {storage: 1Gi}}}\n")
	w.state("claim", v1beta2.StateReady, "")

	t.Log("without the right to list autoscalers, replicas are reverted, and the condition Rights has the reason")
	w.wants("scaled", deploymentText("scaled"))
	w.runs(home, "scaled")
	w.state("scaled", v1beta2.StateReady, "")
	require.NoError(t, w.client.Patch(t.Context(),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "scaled"}},
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":3}}`))))
	w.eventually("the missing permission is reported", func() bool {
		c := meta.FindStatusCondition(w.manifest("scaled").Status.Conditions, v1beta2.ConditionRights)
		return c != nil && c.Reason == v1beta2.ReasonReadForbidden &&
			strings.Contains(c.Message, "horizontalpodautoscalers")
	})
}
