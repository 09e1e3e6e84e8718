package render

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

var update = flag.Bool("update", false, "write the golden files")

type member struct {
	tar.Header
	body string
}

func yamlFile(name, body string) member {
	return member{tar.Header{Name: name, Typeflag: tar.TypeReg}, body}
}

func archive(t testing.TB, members ...member) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range members {
		m.Size, m.Mode = int64(len(m.body)), 0o644
		require.NoError(t, w.WriteHeader(&m.Header))
		_, err := w.Write([]byte(m.body))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func zipped(t testing.TB, data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func configMap(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: sample\n", name)
}

func TestObjectOrderDoesNotDependOnPackaging(t *testing.T) {
	folder := archive(t,
		member{Header: tar.Header{Name: "./", Typeflag: tar.TypeDir}},
		yamlFile("./b.yml", configMap("third")),
		yamlFile("./._b.yml", "\x00\x05\x16\x07"),
		yamlFile("./README.md", "# not: {yaml"),
		yamlFile("./a.yaml", "---\n# nothing here\n---\n"+configMap("first")+"---\n"+configMap("second")),
	)
	plain := []byte(configMap("first") + "---\n" + configMap("second") + "---\n" + configMap("third"))
	for name, c := range map[string]struct {
		data   []byte
		packed v1beta2.ImageSpecType
	}{
		"tar of type oci-dir":         {folder, v1beta2.OCIDir},
		"gzipped tar of type oci-dir": {zipped(t, folder), v1beta2.OCIDir},
		"tar of type oci-ref":         {folder, v1beta2.OCIRef},
		"gzipped tar of type oci-ref": {zipped(t, folder), v1beta2.OCIRef},
		"plain YAML":                  {plain, v1beta2.OCIRef},
		"gzipped YAML":                {zipped(t, plain), v1beta2.OCIRef},
		"gzip with zero padding":      {append(zipped(t, folder), make([]byte, 512)...), v1beta2.OCIDir},
		"several gzip members": {
			slices.Concat(zipped(t, folder[:700]), zipped(t, folder[700:]), make([]byte, 10_240)), v1beta2.OCIDir,
		},
		"plain YAML without a type": {plain, ""},
		"YAML after a comment":      {[]byte("# comment\n" + string(plain)), v1beta2.OCIRef},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Render(Input{Content: c.data, Packed: c.packed})
			require.NoError(t, err)
			var names []string
			for _, o := range objects {
				names = append(names, Name(o))
			}
			require.Equal(t, []string{"ConfigMap sample/first", "ConfigMap sample/second", "ConfigMap sample/third"},
				names)
		})
	}
}

// Charts render null for labels and annotations without a value.
func TestLabelsAndAnnotationsWithoutAValueAreOmitted(t *testing.T) {
	objects, err := Render(Input{Packed: v1beta2.OCIRef, Content: []byte(
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a, labels: {unset: null, set: b}, annotations: {unset:}}\n")})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"set": "b"}, objects[0].GetLabels())
	require.Empty(t, objects[0].GetAnnotations())
}

func TestContentErrorsNameTheLocation(t *testing.T) {
	many := make([]member, MaxEntries+1)
	for i := range many {
		many[i] = yamlFile(fmt.Sprintf("%d.txt", i), "")
	}
	for name, c := range map[string]struct {
		data   []byte
		packed v1beta2.ImageSpecType
		want   string
	}{
		"empty content":               {nil, v1beta2.OCIRef, "no objects"},
		"only comments":               {[]byte("# nothing\n---\n# at all\n"), v1beta2.OCIRef, "no objects"},
		"unknown content type":        {nil, "wasm", `content type "wasm" is not supported: use oci-dir`},
		"text instead of a tar":       {[]byte("hello"), v1beta2.OCIDir, "tar:"},
		"scalar instead of an object": {[]byte("hello"), v1beta2.OCIRef, "content, document 1 is the value"},
		"object without apiVersion": {
			[]byte("kind: A\nmetadata: {name: a}"), v1beta2.OCIRef, "content, document 1: object without apiVersion",
		},
		"object without kind": {
			[]byte("apiVersion: v1\nmetadata: {name: a}"), v1beta2.OCIRef, "document 1: object without kind",
		},
		"object without a name": {
			[]byte(configMap("a") + "---\napiVersion: v1\nkind: Secret\n"), v1beta2.OCIRef,
			"document 2: Secret without metadata.name",
		},
		"object with a generated name": {
			[]byte("apiVersion: v1\nkind: Secret\nmetadata: {generateName: a-}"), v1beta2.OCIRef,
			"document 1: Secret with metadata.generateName: set metadata.name instead",
		},
		"name that is a number": {
			[]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: 12}"), v1beta2.OCIRef,
			"document 1: Secret: metadata.name must be a string: put it in quotes",
		},
		"namespace that is a number": {
			[]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: 12}"), v1beta2.OCIRef,
			"document 1: Secret: metadata.namespace must be a string: put it in quotes",
		},
		"invalid file after a valid file": {
			archive(t, yamlFile("a.yaml", configMap("a")), yamlFile("b.yaml", "a: [")), v1beta2.OCIDir,
			"b.yaml, document 1: document 1:",
		},
		"label that is a number": {
			[]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: a, labels: {b: 1}}"), v1beta2.OCIRef,
			"Secret a: values of metadata.labels must be strings",
		},
		"duplicate object": {
			archive(t, yamlFile("a.yaml", configMap("a")), yamlFile("b.yaml", configMap("a"))), v1beta2.OCIDir,
			"b.yaml, document 1, ConfigMap sample/a is already in a.yaml, document 1",
		},
		"duplicate key": {
			[]byte(configMap("a") + "kind: Secret\n"), v1beta2.OCIRef, `"kind" appears twice`,
		},
		"nested aliases": {[]byte(bomb(9)), v1beta2.OCIRef, "more than 400000 values"},
		"aliases of a long text": {
			[]byte("a: &x " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*x,", 9) + "]\n"), v1beta2.OCIRef,
			"more than 8388608 bytes after expanding aliases",
		},
		"alias that contains itself": {[]byte("a: &x [*x]\n"), v1beta2.OCIRef, "document 1: "},
		"merge key with a string": {
			[]byte(configMap("a") + "data: {<<: text}\n"), v1beta2.OCIRef, "a merge key needs a mapping",
		},
		"too many values in YAML": {
			[]byte("a: [" + strings.Repeat("a,", 500_001) + "]"), v1beta2.OCIRef, "more than 500000 values",
		},
		"too many values in JSON": {
			[]byte(`{"a":[` + strings.Repeat("1,", 500_001) + `1]}`), v1beta2.OCIRef, "more than 500000 values",
		},
		"duplicate key in JSON": {
			archive(t, yamlFile("a.json", `{"kind":"A","kind":"B"}`)), v1beta2.OCIDir, "a.json, document 1: ",
		},
		"truncated JSON": {
			archive(t, yamlFile("a.json", `{"kind":"A"`)), v1beta2.OCIDir, "a.json, document 1: unexpected EOF",
		},
		"JSON list instead of an object": {
			archive(t, yamlFile("a.json", `[]`)), v1beta2.OCIDir, "a.json, document 1 is a list",
		},
		"JSON that is nested too deeply": {
			archive(t, yamlFile("a.json", strings.Repeat(`{"a":`, 99)+"1"+strings.Repeat("}", 99))), v1beta2.OCIDir,
			"nested deeper than 64",
		},
		"items that are not a list": {
			[]byte("apiVersion: v1\nkind: List\nitems: {a: b}"), v1beta2.OCIRef, "items must be a list of objects",
		},
		"only an empty list": {[]byte("apiVersion: v1\nkind: List\nitems:\n"), v1beta2.OCIRef, "no objects"},
		"invalid item in a list": {
			[]byte("apiVersion: v1\nkind: List\nitems: [{kind: A}]"), v1beta2.OCIRef,
			"items[0]: object without apiVersion",
		},
		"invalid item in a typed list": {
			[]byte("apiVersion: v1\nkind: ConfigMapList\nitems: [{kind: A}]"), v1beta2.OCIRef,
			"items[0]: object without apiVersion",
		},
		"object of more than 3 MiB": {
			[]byte(configMap("a") + "data: {a: " + strings.Repeat("x", MaxObjectBytes) + "}"), v1beta2.OCIRef,
			"ConfigMap sample/a: ",
		},
		"symbolic link": {
			archive(t, member{Header: tar.Header{Name: "a.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}}),
			v1beta2.OCIDir, "a.yaml is not a file or folder",
		},
		"hard link": {
			archive(t, member{Header: tar.Header{Name: "a.yaml", Typeflag: tar.TypeLink, Linkname: "b"}}),
			v1beta2.OCIDir, "not a file or folder",
		},
		"device": {
			archive(t, member{Header: tar.Header{Name: "a.txt", Typeflag: tar.TypeChar}}), v1beta2.OCIDir,
			"not a file or folder",
		},
		"absolute path": {
			archive(t, yamlFile("/a.yaml", configMap("a"))), v1beta2.OCIDir, "is outside of the folder",
		},
		"path outside of the folder": {
			archive(t, yamlFile("a/../../a.yaml", configMap("a"))), v1beta2.OCIDir, "is outside of the folder",
		},
		"duplicate file": {
			archive(t, yamlFile("a.yaml", configMap("a")), yamlFile("./a.yaml", configMap("b"))), v1beta2.OCIDir,
			"a.yaml appears twice",
		},
		"too many entries": {archive(t, many...), v1beta2.OCIDir, "more than 2000 entries"},
		"zip bomb":         {zipped(t, make([]byte, 8<<20)), v1beta2.OCIRef, "unpack to more than"},
		"truncated tar":    {archive(t, yamlFile("a.yaml", configMap("a")))[:540], v1beta2.OCIDir, "tar:"},
		"gzip with trailing data": {
			append(zipped(t, []byte(configMap("a"))), 0, 'x'), v1beta2.OCIRef, "gzip:",
		},
		"gzip in gzip": {
			zipped(t, zipped(t, []byte(configMap("a")))), v1beta2.OCIRef, "content: the data has the format gzip",
		},
		"zstd": {
			append([]byte("\x28\xb5\x2f\xfd"), make([]byte, 600)...), v1beta2.OCIDir,
			"content: the data has the format zstd, which is not supported here: unpack it",
		},
		"xz in gzip": {zipped(t, []byte("\xfd7zXZ\x00")), v1beta2.OCIRef, "has the format xz"},
		"bzip2":      {[]byte("BZh91AY&SY....."), v1beta2.OCIRef, "has the format bzip2"},
		"zip in a tar": {
			archive(t, yamlFile("a.yaml", "PK\x03\x04..")), v1beta2.OCIDir, "a.yaml: the data has the format zip",
		},
		"truncated gzip": {zipped(t, []byte(configMap("a")))[:30], v1beta2.OCIRef, "gzip:"},
		"YAML directive": {
			[]byte("%YAML 1.2\n---\n" + configMap("a")), v1beta2.OCIRef,
			"content, document 1: document 1: found incompatible YAML document: line 1 is the directive %YAML 1.2: remove " +
				"this line",
		},
		"directive in the second document": {
			[]byte(configMap("a") + "...\n%TAG ! tag:x,2000:\n---\n" + configMap("b")), v1beta2.OCIRef,
			"line 7 is the directive %TAG ! tag:x,2000:: remove this line",
		},
		"null key": {
			[]byte(configMap("a") + "data: {a: b, null: c}\n"), v1beta2.OCIRef,
			"content, document 1: document 1: line 6: a key of field data.<null> is null: put the key in quotes, or remove it",
		},
		"number that JSON does not support": {
			[]byte("apiVersion: example.org/v1\nkind: A\nmetadata: {name: a}\nspec: {limits: [{max: -.Inf}]}\n"),
			v1beta2.OCIRef, "line 4: field spec.limits.max: -.Inf is not a number in JSON: put it in quotes",
		},
		"merge key after a key that it overrides": {
			[]byte(configMap("a") + "data: {a: b, <<: {a: c}}\n"), v1beta2.OCIRef,
			"line 6: the merge key overrides field data.a: put the merge key before this field",
		},
		"field in another case": {
			[]byte("apiVersion: v1\nKind: Secret\nmetadata: {name: a}"), v1beta2.OCIRef,
			"document 1: field Kind must be spelled kind",
		},
		"name in another case": {
			[]byte("apiVersion: v1\nkind: Secret\nmetadata: {Name: a}"), v1beta2.OCIRef,
			"document 1: field metadata.Name must be spelled metadata.name",
		},
		"name without a value": {
			[]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: }"), v1beta2.OCIRef,
			"document 1: Secret without metadata.name",
		},
		"apiVersion that is a number": {
			[]byte("apiVersion: 1\nkind: Secret\nmetadata: {name: a}"), v1beta2.OCIRef,
			"document 1: field apiVersion is 1, but must be a string: put it in quotes",
		},
		"apiVersion without a version": {
			[]byte("apiVersion: apps/\nkind: Deployment\nmetadata: {name: a}"), v1beta2.OCIRef,
			`document 1: Deployment: apiVersion "apps/" must be VERSION or GROUP/VERSION`,
		},
		"metadata that is a list": {
			[]byte("apiVersion: v1\nkind: Secret\nmetadata: [{name: a}]"), v1beta2.OCIRef,
			"document 1: field metadata must be a mapping that sets metadata.name",
		},
		"missing spaces after colons": {
			[]byte("apiVersion:v1\nkind:Secret\n"), v1beta2.OCIRef,
			`document 1 is the value "apiVersion:v1 kind:Secret" and not an object: write each field as NAME: VALUE`,
		},
		"list instead of an object": {
			[]byte("- apiVersion: v1\n  kind: Secret\n"), v1beta2.OCIRef,
			"document 1 is a list and not an object: put the list into the field items of a List",
		},
		"file in UTF-16": {
			[]byte("\xff\xfek\x00i\x00n\x00d\x00"), v1beta2.OCIRef, "content is encoded in UTF-16: save it in UTF-8",
		},
		"JSON that is not in UTF-8": {
			[]byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + "\xff" + `"}}`), v1beta2.OCIRef,
			"document 1 is not encoded in UTF-8",
		},
		"text after a separator": {
			[]byte("--- {apiVersion: v1, kind: Secret, metadata: {name: a}}\n"), v1beta2.OCIRef,
			"write --- on a line of its own",
		},
		"too many objects": {
			[]byte(manyObjects(MaxObjects + 1)), v1beta2.OCIRef, "more than 2000 objects",
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Render(Input{Content: c.data, Packed: c.packed})
			require.ErrorContains(t, err, c.want)
			require.Empty(t, objects)
		})
	}
}

func manyObjects(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "---\n%s", configMap(fmt.Sprint("c", i)))
	}
	return out.String()
}

func TestListsAreSplitAndServerFieldsRemoved(t *testing.T) {
	objects, err := Render(Input{Content: []byte(`
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Secret
  metadata: {name: s, namespace: sample, uid: "1", resourceVersion: "2", creationTimestamp: null, managedFields: [],
    deletionTimestamp: 2026-01-01T00:00:00Z, deletionGracePeriodSeconds: 0}
  data: {password: c2VjcmV0}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: d, namespace: sample}
  spec: {replicas: 2}
  status: {replicas: 9}
`)})
	require.NoError(t, err)
	golden(t, "list", objects)
}

func golden(t *testing.T, name string, objects any) {
	got, err := yaml.Marshal(objects)
	require.NoError(t, err)
	path := filepath.Join("testdata", name+".golden.yaml")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestRealModulesAreRendered(t *testing.T) {
	for component, file := range map[string]string{
		"keda-1.7.0":              "keda-manager.yaml",
		"keda-1.8.0":              "keda-manager.yaml",
		"template-operator-1.0.5": "template-operator.yaml",
	} {
		t.Run(component, func(t *testing.T) {
			blobs, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "realworld", "ctf", component,
				"blobs", "*"))
			require.NoError(t, err)
			if len(blobs) == 0 {
				t.Skipf("needs %s in shared/realworld/ctf", component)
			}
			for _, blob := range blobs {
				data, err := os.ReadFile(blob)
				require.NoError(t, err)
				if !isTar(data) || !bytes.HasPrefix(data, []byte(file)) {
					continue
				}
				objects, err := Render(Input{Content: data, Packed: v1beta2.OCIDir})
				require.NoError(t, err)
				require.Greater(t, len(objects), 10)
				return
			}
			t.Fatalf("no blob of %s contains %s", component, file)
		})
	}
}

func FuzzRender(f *testing.F) {
	f.Add([]byte(configMap("a")), true)
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [{}]"), false)
	f.Add(archive(f, yamlFile("a.yaml", configMap("a"))), true)
	f.Add(zipped(f, archive(f, yamlFile("a.yaml", configMap("a")))), true)
	f.Fuzz(func(t *testing.T, data []byte, folder bool) {
		packed := v1beta2.OCIRef
		if folder {
			packed = v1beta2.OCIDir
		}
		objects, err := Render(Input{Content: data, Packed: packed})
		if err != nil {
			require.Empty(t, objects)
			return
		}
		for _, o := range objects {
			require.NotEmpty(t, o.GetName())
			require.NotEmpty(t, o.GetKind())
			require.NotEmpty(t, o.GetAPIVersion())
			_ = o.DeepCopy() // panics on values that are not valid in JSON
		}
	})
}
