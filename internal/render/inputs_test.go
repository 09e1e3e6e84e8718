package render

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// inputs returns a tar with the files from a folder in testdata/inputs.
func inputs(t *testing.T, folder string) []byte {
	t.Helper()
	var members []member
	root := filepath.Join("testdata", "inputs", folder)
	require.NoError(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		members = append(members, yamlFile(name, string(data)))
		return err
	}))
	return archive(t, members...)
}

func TestContentIsParsedAsInKubectl(t *testing.T) {
	list := func(kind, items string) string { return "apiVersion: v1\nkind: " + kind + "\nitems: " + items }
	for name, c := range map[string]struct {
		content []byte
		want    []string
	}{
		"JSON and YAML files": {
			inputs(t, "json-manifests"), []string{"ConfigMap kyma-system/yjson-one", "ConfigMap kyma-system/yjson-two"},
		},
		"lists without names": {
			inputs(t, "lists"), []string{
				"ConfigMap kyma-system/ylist-one", "ConfigMap kyma-system/ylist-two", "Role kyma-system/ylist-role",
			},
		},
		"JSON with tabs": {
			archive(t,
				yamlFile("a.json",
					"{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"ConfigMap\",\n\t\"metadata\": {\"name\": \"a\"}\n}\n")), []string{"ConfigMap a"},
		},
		"JSON with tabs in a YAML file": {
			archive(t,
				yamlFile("a.yaml",
					"---\n{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"ConfigMap\",\n\t\"metadata\": {\"name\": "+
						"\"a\"}\n}\n")), []string{"ConfigMap a"},
		},
		"several objects in one JSON file": {
			archive(t,
				yamlFile("a.json", `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`+"\n"+
					`{"apiVersion":"v1","kind":"B","metadata":{"name":"b"}}`)), []string{"A a", "B b"},
		},
		"list in JSON": {
			archive(t,
				yamlFile("a.json",
					`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}]}`)), []string{"A a"},
		},
		"empty lists and an object": {
			archive(t,
				yamlFile("a.yaml", list("List", "\n")+"---\n"+list("ConfigMapList", "[]")+"\n---\n"+configMap("a"))),
			[]string{"ConfigMap sample/a"},
		},
		"several JSON objects in one document of a YAML file": {
			archive(t,
				yamlFile("a.yaml", `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`+
					`{"apiVersion":"v1","kind":"B","metadata":{"name":"b"}}`+"\n---\n"+configMap("c"))),
			[]string{"A a", "B b", "ConfigMap sample/c"},
		},
		"YAML in a JSON file": {
			archive(t, yamlFile("a.json", configMap("a")+"---\n"+configMap("b"))),
			[]string{"ConfigMap sample/a", "ConfigMap sample/b"},
		},
		"JSON objects between separators": {
			archive(t, yamlFile("a.json", `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`+"\n---\n"+
				`{"apiVersion":"v1","kind":"B","metadata":{"name":"b"}}`)), []string{"A a", "B b"},
		},
		"list without items": {
			archive(t, yamlFile("a.yaml", "apiVersion: v1\nkind: List\n---\n"+configMap("a"))),
			[]string{"ConfigMap sample/a"},
		},
		"lists in a list": {
			archive(t, yamlFile("a.yaml",
				list("List", "[{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: A, metadata: {name: a}}]}, "+
					"{apiVersion: v1, kind: ConfigMapList, items: [{metadata: {name: b}}]}]"))),
			[]string{"A a", "ConfigMap b"},
		},
		"extensions in upper case": {
			archive(t, yamlFile("A.YAML", configMap("a")), yamlFile("B.Yml", configMap("b")),
				yamlFile("C.JSON", `{"apiVersion":"v1","kind":"C","metadata":{"name":"c"}}`)),
			[]string{"ConfigMap sample/a", "ConfigMap sample/b", "C c"},
		},
		"typed list with items without a kind": {
			archive(t, yamlFile("a.yaml", list("ConfigMapList", "[{apiVersion: v1, metadata: {name: a}}]\n"))),
			[]string{"ConfigMap a"},
		},
		"alias as a key": {
			archive(t, yamlFile("a.yaml", configMap("a")+"data: {a: &x b, *x : c}\n")), []string{"ConfigMap sample/a"},
		},
		"byte order marks and Windows line endings": {
			archive(t, yamlFile("a.yaml", strings.ReplaceAll("\xef\xbb\xbf"+configMap("a")+"---\n\xef\xbb\xbf"+
				configMap("b"), "\n", "\r\n"))), []string{"ConfigMap sample/a", "ConfigMap sample/b"},
		},
		"custom resource with a field items": {
			archive(t,
				yamlFile("a.yaml",
					"apiVersion: example.org/v1\nkind: Menu\nmetadata: {name: lunch}\nitems: [{dish: soup}]\n")),
			[]string{"Menu lunch"},
		},
		"custom resource whose kind ends with List": {
			archive(t,
				yamlFile("a.yaml", "apiVersion: example.org/v1\nkind: AllowList\nmetadata: {name: a}\nitems: [1]\n")),
			[]string{"AllowList a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Render(Input{Content: c.content, Packed: v1beta2.OCIDir})
			require.NoError(t, err)
			var names []string
			for _, o := range objects {
				names = append(names, Name(o))
			}
			require.Equal(t, c.want, names)
		})
	}
}

func TestAnchorsAndMergeKeysAreExpanded(t *testing.T) {
	content := configMap("a") + "data: &base {x: one, z: two}\n---\n" +
		"apiVersion: v1\nkind: Secret\nmetadata:\n  name: b\n  labels: &labels {app: b}\n  annotations:\n    <<: " +
		"*labels\n    more: c\nstringData: {<<: [*labels, {app: z, other: o}], x: &v two, z: *v}\n"
	objects, err := Render(Input{Content: []byte(content)})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"x": "one", "z": "two"}, objects[0].Object["data"])
	require.Equal(t, map[string]string{"app": "b", "more": "c"}, objects[1].GetAnnotations())
	require.Equal(t, map[string]any{"app": "b", "other": "o", "x": "two", "z": "two"}, objects[1].Object["stringData"])
}

// The CRD has the size of Argo Workflows' CRDs: 2.9 MB in YAML and 1.2 MB in JSON.
func TestLargestKnownCRDIsRendered(t *testing.T) {
	var text strings.Builder
	text.WriteString(
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
			"larges.example.org}\nspec:\n  schema:\n",
	)
	indent := strings.Repeat(" ", 40)
	for i := range 23_000 {
		fmt.Fprintf(&text, "%sfield%05d:\n%s  description: 'A text, with: signs - and more.'\n%s  type: string\n",
			indent, i, indent, indent)
	}
	require.Greater(t, text.Len(), 3_500_000)
	objects, err := Render(Input{Content: []byte(text.String())})
	require.NoError(t, err)
	encoded, err := objects[0].MarshalJSON()
	require.NoError(t, err)
	require.Greater(t, len(encoded), 1_500_000)
}
