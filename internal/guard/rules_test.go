package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

const home = v1beta2.RuntimeNamespace

func objects(t *testing.T, yaml string) []*unstructured.Unstructured {
	t.Helper()
	found, err := render.Render(render.Input{Content: []byte(yaml), Packed: v1beta2.OCIRef})
	require.NoError(t, err)
	return found
}

// checkContent fails the test unless Check refuses the content with an error that contains want. If want is empty,
// Check must accept the content.
func checkContent(t *testing.T, content, want string) {
	t.Helper()
	err := Check(objects(t, content), home)
	if want == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, want)
}

// Charts write null for an empty list.
func TestNullListInContentIsTreatedAsEmpty(t *testing.T) {
	for name, c := range map[string]struct{ yaml, want string }{
		"rules of a Role": {"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: x}\nrules:", ""},
		"rules of a FlowSchema": {
			"apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: FlowSchema\nmetadata: {name: x}\nspec: {rules: null}", "",
		},
		"webhooks": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: x}\n" +
				"webhooks: null", "",
		},
		"external IPs of a Service": {
			"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {externalIPs: null}", "",
		},
		"text instead of a list": {
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x}\nrules: all",
			"rules cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) { checkContent(t, c.yaml, c.want) })
	}
}
