package planning

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

func TestDefaultCRIsCheckedLikeContent(t *testing.T) {
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "skr-agent-key", "namespace": home},
	}}
	_, err := makePlan(nil, secret, nil, sampleOwner, func(schema.GroupVersionKind) (bool, error) { return true, nil })
	require.ErrorContains(t, err,
		"Secret kyma-system/skr-agent-key: the name is reserved for the agent")
}

func TestPermissionsCoverInstallationMaintenanceAndRemoval(t *testing.T) {
	before := []v1beta2.Resource{
		{Name: "old", Namespace: home, GroupVersionKind: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}},
	}
	p, err := makePlan(objects(t, sampleCRD+sampleRest), sample("default", ""), before, sampleOwner, builtIn)
	require.NoError(t, err)
	var texts []string
	for _, r := range guard.RequiredPermissions(p.Work(), func(gvk schema.GroupVersionKind) (string, bool) {
		return strings.ToLower(gvk.Kind) + "s", !guard.IsCustomGroup(gvk.Group)
	}) {
		texts = append(texts, r.String())
	}
	got := strings.Join(texts, "\n")
	for _, want := range []string{
		`patch namespaces "kyma-system"`,
		`create customresourcedefinitions.apiextensions.k8s.io "samples.example.kyma-project.io"`,
		`list samples.example.kyma-project.io`,
		`delete clusterroles.rbac.authorization.k8s.io "sample-role"`,
		`patch deployments.apps "sample-manager" in namespace kyma-system`,
		`create samples.example.kyma-project.io "default" in namespace kyma-system`,
		`delete configmaps "old" in namespace kyma-system`,
	} {
		require.Contains(t, texts, want, got)
	}
	require.NotContains(t, texts, `delete namespaces "kyma-system"`, "shared namespaces are never deleted")
}
