package takeover

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// The expected owner annotations come from objects that lifecycle-manager wrote, see integration/landscape/recorded.
func TestOwnerAnnotationsMatchLifecycleManager(t *testing.T) {
	for module, mark := range map[string]string{
		"scaler": "kcp-system/one-scaler-3258028532",
		"guard":  "kcp-system/one-guard-2502733710",
		"mailer": "kcp-system/one-mailer-4124185396",
	} {
		require.Equal(t, []string{mark}, OwnerAnnotations("kcp-system/one", "kyma-pull.dev/module/"+module, module))
	}
	require.Empty(t, OwnerAnnotations("", "kyma-pull.dev/module/scaler", "scaler"), "without a Kyma")
	require.Empty(t, OwnerAnnotations("kcp-system/one", "", "scaler"), "without a component")
	require.Len(t, OwnerAnnotations("kcp-system/one,kcp-system/two", "kyma-pull.dev/module/scaler",
		"scaler", "team/scaler"), 4)
}

func TestLifecycleManagerModuleIsFoundByExactOwner(t *testing.T) {
	const kyma = "kcp-system/f3b1c0de-5a6b-4c7d-8e9f-001122334455"
	mark := func(kyma, module string) string {
		return OwnerAnnotations(kyma, "kyma-project.io/module/"+module, module)[0]
	}
	own := func(module string) []string { return []string{mark(kyma, module)} }
	const long = "application-connector-manager"
	require.Equal(t, kyma+"-application-connector-man", mark(kyma, long))
	for name, c := range map[string]struct {
		marked, module string
		want           bool
	}{
		"owner annotation of the module":          {mark(kyma, "keda"), "keda", true},
		"longer module name with the same suffix": {mark(kyma, "api-gateway"), "gateway", false},
		"longer module name with the same prefix": {mark(kyma, "gateway-api"), "gateway", false},
		"Kyma with the name of the module":        {mark("kcp-system/gateway", "keda"), "gateway", false},
		"same module in another Kyma":             {mark("kcp-system/other", "keda"), "keda", false},
		"annotation with another namespace":       {"tenant" + mark(kyma, "keda")[len("kcp-system"):], "keda", false},
		"truncated name of the module":            {mark(kyma, long), long, true},
		"truncated name of another module":        {mark(kyma, long), "application-connector", false},
		"object without an owner annotation":      {"", "keda", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, annotation := range []string{v1beta2.AnnotationOwnedBy, v1beta2.AnnotationOwnedByDeprecated} {
				o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
					Labels:      map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma},
					Annotations: map[string]string{annotation: c.marked},
				}}
				require.Equal(t, c.want, HasInstalled(o, "kyma-system", own(c.module)), annotation)
				o.Labels = nil
				require.False(t, HasInstalled(o, "kyma-system", own(c.module)), "without lifecycle-manager's label")
			}
		})
	}
}
