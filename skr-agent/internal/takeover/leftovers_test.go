package takeover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestLeftoversAreRecognizedByTheirMetadata(t *testing.T) {
	kymas := map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma}
	for name, c := range map[string]struct {
		meta metav1.ObjectMeta
		want bool
	}{
		"lifecycle-manager's label": {metav1.ObjectMeta{Labels: kymas}, true},
		"lifecycle-manager's field manager": {
			metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "lifecycle-manager"}}}, true,
		},
		"lifecycle-manager's field manager on the status only": {
			metav1.ObjectMeta{
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "lifecycle-manager", Subresource: "status"}},
			}, false,
		},
		"object without a label or field manager": {metav1.ObjectMeta{}, false},
		"label of another tool": {
			metav1.ObjectMeta{Labels: map[string]string{v1beta2.LabelManagedBy: "helm"}}, false,
		},
		"annotation owned-by with a Manifest in the runtime": {
			metav1.ObjectMeta{Labels: kymas,
				Annotations: map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/watcher"}}, false,
		},
		"lifecycle-manager's owner annotation for a module": {
			metav1.ObjectMeta{Labels: kymas,
				Annotations: map[string]string{v1beta2.AnnotationOwnedByDeprecated: "kcp-system/a-watcher-1"}}, false,
		},
		"label of a module that became unmanaged": {
			metav1.ObjectMeta{
				Labels: map[string]string{v1beta2.LabelManagedBy: "kyma", v1beta2.LabelModuleName: "watcher"},
			}, false,
		},
		"annotation adopt with a Manifest": {
			metav1.ObjectMeta{Labels: kymas,
				Annotations: map[string]string{v1beta2.AnnotationAdopt: "kyma-system/watcher"}}, false,
		},
	} {
		if got := isLeftover(&metav1.PartialObjectMetadata{ObjectMeta: c.meta}); got != c.want {
			t.Errorf("%s: isLeftover = %t, want %t", name, got, c.want)
		}
	}
	for _, o := range Leftovers {
		require.NoError(t, o.Check())
	}
}

func TestTakeoverPermissionsAreMinimal(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "skr-agent", "rbac", "takeover.yaml"))
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, document := range strings.Split(string(text), "\n---\n") {
		role := rbacv1.ClusterRole{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &role))
		for _, rule := range role.Rules {
			require.Equal(t, []string{"get", "delete"}, rule.Verbs)
			for _, name := range rule.ResourceNames {
				seen[role.Namespace+" "+rule.APIGroups[0]+" "+rule.Resources[0]+" "+name] = true
			}
		}
	}
	taken := map[string]bool{}
	for _, o := range Leftovers {
		resource, _ := meta.UnsafeGuessKindToResource(o.GVK())
		taken[o.Namespace+" "+o.Group+" "+resource.Resource+" "+o.Name] = true
	}
	require.Equal(t, taken, seen)
}
