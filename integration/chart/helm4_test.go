package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/hack/suite"
)

// The programs render with Helm 3's engine. Helm 4 users must get the same objects.
func TestHelm4RendersSameObjectsAsHelm3(t *testing.T) {
	suite.Long(t)
	for name, r := range cases(t) {
		t.Run(name, func(t *testing.T) {
			values := filepath.Join(t.TempDir(), "values.yaml")
			data, err := yaml.Marshal(r.Values)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(values, data, 0o600))
			helm := exec.CommandContext(t.Context(), "go", "tool", "-modfile=hack/helm4/go.mod", "helm", "template",
				r.Name,
				filepath.Join("charts", filepath.Base(r.Dir)), "--namespace", r.Namespace, "--values", values,
				"--kube-version", "1.36.3")
			helm.Dir = filepath.Join("..", "..")
			output, err := helm.Output()
			require.NoError(t, err, string(output))
			got, err := Rendered{Templates: map[string]string{"all": string(output)}}.Objects()
			require.NoError(t, err)
			want := objectsOf(t, r)
			require.Len(t, got, len(want))
			byKey := func(objects []*unstructured.Unstructured) map[string]map[string]any {
				found := map[string]map[string]any{}
				for _, o := range objects {
					found[strings.Join([]string{o.GetKind(), o.GetNamespace(), o.GetName()}, "/")] = o.Object
				}
				return found
			}
			require.Equal(t, byKey(want), byKey(got))
		})
	}
}
