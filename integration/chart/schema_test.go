package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Helm rejects a value that is missing in the schema. A value that is missing in values.yaml is not documented.
func TestSchemaMatchesTheValues(t *testing.T) {
	for name := range namespaces {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join("..", "..", "charts", name)
			var values, schema map[string]any
			text, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
			require.NoError(t, err)
			require.NoError(t, yaml.UnmarshalStrict(text, &values))
			text, err = os.ReadFile(filepath.Join(folder, "values.schema.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &schema))
			definitions, _ := schema["definitions"].(map[string]any)
			compare(t, "", values, schema, definitions)
		})
	}
}

// ownDefinitions lists the schema definitions for the chart's own values. All other definitions describe Kubernetes
// types.
var ownDefinitions = []string{"events"}

// compare checks that values and schema have the same keys, including nested values of the chart.
func compare(t *testing.T, path string, values, schema, definitions map[string]any) {
	t.Helper()
	if reference, ok := schema["$ref"].(string); ok {
		name := strings.TrimPrefix(reference, "#/definitions/")
		if !slices.Contains(ownDefinitions, name) {
			return
		}
		schema, _ = definitions[name].(map[string]any)
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return
	}
	require.Equal(t, false, schema["additionalProperties"], "%s: the schema allows unknown properties", path)
	for key := range properties {
		if _, ok := values[key]; !ok && path+"."+key != ".global" { // Helm defines .global
			t.Errorf("%s.%s is missing in values.yaml", path, key)
		}
	}
	for key, value := range values {
		if _, ok := properties[key]; !ok {
			t.Errorf("%s.%s is missing in the schema", path, key)
		}
		if inner, ok := value.(map[string]any); ok {
			below, _ := properties[key].(map[string]any)
			compare(t, path+"."+key, inner, below, definitions)
		}
	}
}

// Artifact Hub shows these annotations.
func TestChartsHaveArtifactHubAnnotations(t *testing.T) {
	for name := range namespaces {
		loaded, err := loader.LoadDir(filepath.Join("..", "..", "charts", name))
		require.NoError(t, err)
		annotations := loaded.Metadata.Annotations
		require.Equal(t, "Apache-2.0", annotations["artifacthub.io/license"])
		require.NotEmpty(t, annotations["artifacthub.io/category"])
		var links, crds []map[string]string
		require.NoError(t, yaml.UnmarshalStrict([]byte(annotations["artifacthub.io/links"]), &links))
		require.NoError(t, yaml.UnmarshalStrict([]byte(annotations["artifacthub.io/crds"]), &crds))
		for _, l := range links {
			_, below, found := strings.Cut(l["url"], "/main/")
			require.True(t, found, l["url"])
			require.FileExists(
				t,
				filepath.Join("..", "..", below,
					map[bool]string{true: "Chart.yaml"}[strings.HasPrefix(below, "charts/")]),
			)
		}
		for _, crd := range crds {
			group := strings.TrimPrefix(crd["name"], strings.SplitN(crd["name"], ".", 2)[0]+".")
			kind := strings.SplitN(crd["name"], ".", 2)[0]
			files, err := filepath.Glob(filepath.Join("..", "..", "charts", name, "*", "*", group+"_"+kind+".yaml"))
			require.NoError(t, err)
			more, err := filepath.Glob(filepath.Join("..", "..", "charts", name, "crds", group+"_"+kind+".yaml"))
			require.NoError(t, err)
			require.Len(t, append(files, more...), 1, crd["name"])
			require.Equal(t, strings.ToLower(crd["kind"])+"s", kind)
		}
		require.NotEmpty(t, crds)
		for _, file := range loaded.Files {
			require.NotEqual(t, "README.md.gotmpl", file.Name)
		}
	}
}

// acceptsEveryObject applies the charts' objects in a dry run, except for kinds that the API server does not serve. The
// API server rejects an object with an unknown field.
func (g *testCluster) acceptsEveryObject() {
	g.Helper()
	judged := map[string]int{}
	for name, r := range cases(g.T) {
		for _, o := range objectsOf(g.T, r) {
			if namespace := o.GetNamespace(); namespace != "" {
				err := g.api.Create(g.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
				require.NoError(g, client.IgnoreAlreadyExists(err))
			}
			err := g.api.Apply(g.Context(), client.ApplyConfigurationFromUnstructured(o), client.DryRunAll,
				client.FieldOwner("test"), client.ForceOwnership)
			foreign := strings.HasPrefix(o.GetAPIVersion(), "monitoring.coreos.com/") ||
				strings.HasPrefix(o.GetAPIVersion(), "gateway.networking.k8s.io/")
			if foreign && meta.IsNoMatchError(err) || foreign && apierrors.IsNotFound(err) {
				continue
			}
			require.NoError(g, err, "%s: %s %s", name, o.GetKind(), o.GetName())
			judged[o.GetKind()]++
		}
	}
	for _, kind := range []string{"Deployment", "NetworkPolicy", "PodDisruptionBudget", "ClusterRole", "Ingress",
		"Service"} {
		require.Positive(g, judged[kind], kind)
	}
	strange := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "a", "namespace": "kcp-system"},
		"spec": map[string]any{"prots": []any{}},
	}}
	require.Error(g,
		g.api.Apply(g.Context(), client.ApplyConfigurationFromUnstructured(strange), client.DryRunAll,
			client.FieldOwner("test")))
}
