package chart

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestGitOpsManifestsFitTheCharts renders the charts with the values of the page on Flux and Argo CD.
func TestGitOpsManifestsFitTheCharts(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "install-with-gitops.md"))
	require.NoError(t, err)
	rendered := map[string]int{}
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(page), -1) {
		for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(block[1]), 4096); ; {
			object := unstructured.Unstructured{}
			err := decoder.Decode(&object.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			folder, namespace, values := installed(t, object)
			if folder == "" {
				continue
			}
			rendered[object.GetKind()]++
			release := Release{
				Dir: filepath.Join("..", "..", folder), Name: filepath.Base(folder), Namespace: namespace, Values: values,
			}
			result, err := release.Render()
			require.NoError(t, err, object.GetName())
			require.Contains(t, result.Templates["deployment.yaml"], nested(t, values, "image", "repository")+":1.0.0")
		}
	}
	require.Equal(t, map[string]int{"HelmRelease": 2, "Application": 2}, rendered)
}

// installed returns the chart, the namespace and the values of a HelmRelease or an Application. For other kinds it
// returns no chart.
func installed(t *testing.T, object unstructured.Unstructured) (chart, namespace string, values map[string]any) {
	t.Helper()
	var found bool
	var err error
	switch object.GetKind() {
	case "HelmRelease":
		values, found, err = unstructured.NestedMap(object.Object, "spec", "values")
		chart, namespace = nested(t, object.Object, "spec", "chart", "spec", "chart"), object.GetNamespace()
	case "Application":
		values, found, err = unstructured.NestedMap(object.Object, "spec", "source", "helm", "valuesObject")
		chart = nested(t, object.Object, "spec", "source", "path")
		namespace = nested(t, object.Object, "spec", "destination", "namespace")
	default:
		return "", "", nil
	}
	require.NoError(t, err)
	require.True(t, found, object.GetName())
	return chart, namespace, values
}

func nested(t *testing.T, object map[string]any, fields ...string) string {
	t.Helper()
	value, found, err := unstructured.NestedString(object, fields...)
	require.NoError(t, err)
	require.True(t, found, fields)
	return value
}
