package install

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
)

// largeCRD returns a CRD of more than 2 MB in YAML, or 0.8 MB in JSON. With managed fields, it is close to etcd's limit
// of 1.5 MB.
func largeCRD() string {
	var text strings.Builder
	text.WriteString(strings.NewReplacer("Sample", "Large", "sample", "large").Replace(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: samples.large.example.org}
spec:
  group: large.example.org
  names: {kind: Sample, listKind: SampleList, plural: samples, singular: sample}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
`))
	indent := strings.Repeat(" ", 14)
	for i := range 1_030 {
		fmt.Fprintf(&text, "%sp%05d:\n%s  type: object\n%s  properties:\n", indent, i, indent, indent)
		for j := range 6 {
			for _, line := range []string{
				fmt.Sprintf("q%d:", j), "  type: object", "  properties:", "    leaf:", "      type: array",
				"      items:", "        type: object", "        properties:", "          name:", "            type: string",
			} {
				fmt.Fprintf(&text, "%s    %s\n", indent, line)
			}
		}
	}
	return text.String()
}

func TestLargeCRDIsInstalledUpgradedAndRemoved(t *testing.T) {
	suite.Long(t) // the short suite runs TestLargestKnownCRDIsRendered
	w := newWorld(t)
	content := largeCRD()
	encoded, err := yaml.YAMLToJSON([]byte(content))
	require.NoError(t, err)
	require.Greater(t, len(content), 2<<20, "the CRD must be larger than earlier limits")
	require.Greater(t, len(encoded), 800_000)
	w.wants("large", content+"\n---\n"+aConfigMap("large"), version("1.0.0"))
	w.state("large", v1beta2.StateReady, "")
	definition := &apiextensionsv1.CustomResourceDefinition{}
	require.True(t, w.exists(definition, "", "larges.large.example.org"))
	require.Len(t, definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, 1_030)

	w.wants("large", strings.Replace(content, "type: string", "type: integer", 1)+"\n---\n"+aConfigMap("large"),
		version("2.0.0"))
	w.eventually("the upgrade is applied", func() bool {
		return w.exists(definition, "", "larges.large.example.org") && definition.Spec.Versions[0].Schema.
			OpenAPIV3Schema.Properties["spec"].Properties["p00000"].Properties["q0"].Properties["leaf"].Items.Schema.
			Properties["name"].Type == "integer"
	})
	w.state("large", v1beta2.StateReady, "")
	w.remove("large")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "large") })
}
