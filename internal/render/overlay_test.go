package render

import (
	"archive/tar"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// overlayOf returns a tar with an overlay. The list files alternates between file names and contents.
func overlayOf(t testing.TB, files ...string) Input {
	var members []member
	for i := 0; i < len(files); i += 2 {
		members = append(members, yamlFile(files[i], files[i+1]))
	}
	return Input{Content: archive(t, members...), Packed: v1beta2.Kustomize, Release: "sample"}
}

func TestOverlayFolderIsFound(t *testing.T) {
	k := "resources: [a.yaml]"
	for name, c := range map[string]struct {
		path  string
		files []string
		err   string
	}{
		"kustomization at the top level":       {"", []string{"kustomization.yaml", k, "a.yaml", configMap("a")}, ""},
		"kustomization with another file name": {"", []string{"Kustomization", k, "a.yaml", configMap("a")}, ""},
		"kustomization at the configured path": {
			"x/y/", []string{"x/y/kustomization.yml", k, "x/y/a.yaml", configMap("a")}, "",
		},
		"two kustomization files in one folder": {
			"", []string{"kustomization.yaml", k, "kustomization.yml", k},
			". contains kustomization.yaml, kustomization.yml: keep one of these files",
		},
		"kustomizations only in subfolders": {
			"", []string{"b/kustomization.yaml", k, "a/kustomization.yaml", k},
			"no kustomization.yaml at the top level of the content, only in a, b",
		},
		"kustomization in another folder": {
			"c", []string{"b/kustomization.yaml", k}, "no kustomization.yaml at c, only in b",
		},
		"no kustomization": {
			"", []string{"a.yaml", configMap("a")}, "content has no kustomization.yaml",
		},
		"path above the content": {
			"../x", []string{"kustomization.yaml", k}, `path "../x" is outside of the content`,
		},
		"absolute path": {
			"/etc", []string{"kustomization.yaml", k}, `path "/etc" is outside of the content`,
		},
		"resource with invalid YAML": {
			"", []string{"kustomization.yaml", k, "a.yaml", "a: ["},
			"kustomization sample: kustomization.yaml: a.yaml: document 1: ",
		},
		"unknown field": {"", []string{"kustomization.yaml", "resource: [a.yaml]"}, `unknown field "resource"`},
	} {
		t.Run(name, func(t *testing.T) {
			in := overlayOf(t, c.files...)
			in.Path = c.path
			if c.err == "" {
				require.Equal(t, "ConfigMap", rendered(t, in)["kind"])
				return
			}
			_, err := Render(in)
			require.ErrorContains(t, err, c.err)
		})
	}
}

// listening starts an HTTP server and adds fake git, helm and docker programs to $PATH. The function untouched fails
// the test if the server or one of the programs was used.
func listening(t *testing.T) (address string, untouched func()) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, configMap("fetched"))
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	ran := filepath.Join(folder, "ran")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "git"), []byte("#!/bin/sh\ntouch "+ran+"\nexit 1\n"), 0o755))
	for _, program := range []string{"helm", "docker"} {
		require.NoError(t, os.Symlink("git", filepath.Join(folder, program)))
	}
	t.Setenv("PATH", folder)
	return server.URL, func() {
		require.Zero(t, asked.Load(), "the server received a request")
		_, err := os.Stat(ran)
		require.ErrorIs(t, err, os.ErrNotExist, "git, helm or docker was executed")
	}
}

func TestOverlaysCannotReferToExternalSources(t *testing.T) {
	address, untouched := listening(t)
	base := "resources: [a.yaml]\n"
	for name, c := range map[string]struct{ kustomization, err string }{
		"URL as a resource": {
			"resources: ['" + address + "/a.yaml']", "is an address, but rendering fetches nothing",
		},
		"URL in bases":                     {"bases: ['" + address + "/a']", "is an address"},
		"URL as a component":               {"components: ['" + address + "/a']", "is an address"},
		"GitHub URL":                       {"resources: ['https://github.com/a/b//c?ref=main']", "is an address"},
		"github.com without a scheme":      {"resources: [github.com/a/b]", "is an address"},
		"path that starts with GitHub.com": {"resources: [GitHub.com/a/b]", "is an address"},
		"SSH address":                      {"resources: ['git@example.org:a/b']", "is an address"},
		"go-getter address":                {"resources: ['git::https://example.org/a']", "is an address"},
		"file URL":                         {"resources: ['file:///etc']", "is an address"},
		"path that starts with user@host":  {"resources: [root@example/a]", "is an address"},
		"URL of a patch":                   {base + "patches: [{path: '" + address + "'}]", "is an address"},
		"URL in patchesStrategicMerge": {
			base + "patchesStrategicMerge: ['" + address + "']", "patchesStrategicMerge[0]: " + address +
				" is an address",
		},
		"URL in patchesJson6902": {
			base + "patchesJson6902: [{path: '" + address + "', target: {kind: A, name: a, version: v1}}]",
			"is an address",
		},
		"URL of a replacement":     {base + "replacements: [{path: '" + address + "'}]", "is an address"},
		"URL of an OpenAPI schema": {base + "openapi: {path: '" + address + "'}", "is an address"},
		"URL in configurations":    {base + "configurations: ['" + address + "']", "is an address"},
		"URL in crds":              {base + "crds: ['" + address + "']", "is an address"},
		"URL in the files of a generator": {
			"configMapGenerator: [{name: a, files: ['k=" + address + "']}]", "is an address",
		},
		"URL in the envs of a generator": {"secretGenerator: [{name: a, envs: ['" + address + "']}]", "is an address"},
		"URL in the env of a generator":  {"secretGenerator: [{name: a, env: '" + address + "'}]", "is an address"},
		"absolute path of a file": {
			"configMapGenerator: [{name: a, files: [/etc/passwd]}]", "/etc/passwd is outside of the content",
		},
		"file above the content": {
			"configMapGenerator: [{name: a, files: [../../etc/passwd]}]", "../../etc/passwd is outside of the content",
		},
		"missing file": {"resources: [b.yaml]", "b.yaml is not in the content"},
		"file name with a space": {
			"configMapGenerator: [{name: a, files: ['a b']}]", "a b has unsupported characters",
		},
		"file of another overlay": {
			"configMapGenerator: [{name: a, files: [../other/secret]}]", "is not in or below",
		},
		"Helm chart in helmCharts": {
			"helmCharts: [{name: a, repo: '" + address + "'}]",
			"helmCharts: Helm charts are not supported here: use content type helm-chart",
		},
		"Helm chart in helmChartInflationGenerator": {
			"helmChartInflationGenerator: [{chartName: a}]",
			"helmChartInflationGenerator: Helm charts are not supported here",
		},
		"Helm chart in generators": {
			"generators: ['{apiVersion: builtin, kind: HelmChartInflationGenerator, metadata: {name: a}, name: a}']",
			"generators: plugins are not supported",
		},
		"program in transformers": {base + "transformers: [plugin.yaml]", "transformers[0]: plugins are not supported"},
		"program in the second document of a transformer": {
			base + "transformers: [plugins.yaml]", "transformers[0]: more than 1 documents",
		},
		"transformer that reads files": {
			base + "transformers: [\"apiVersion: builtin\\nkind: PatchTransformer\\nmetadata: {name: a}\\npath: x\"]",
			"transformers[0]: plugins are not supported",
		},
		"transformer with two kinds": {
			base + "transformers: [\"apiVersion: builtin\\nkind: PatchTransformer\\nKind: LabelTransformer\\n" +
				"metadata: {name: a}\"]",
			"transformers[0]: plugins are not supported",
		},
		"transformer outside of the content": {base + "transformers: [../../a.yaml]", "is outside of the content"},
		"program in validators":              {base + "validators: [plugin.yaml]", "validators: plugins are not supported"},
		"field name with different capitalization": {
			"HelmCharts: [{name: a, repo: '" + address + "'}]", "Helm charts are not supported here",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := overlayOf(
				t,
				"top/kustomization.yaml",
				c.kustomization,
				"top/a.yaml",
				configMap("a"),
				"other/secret",
				"x",
				"top/GitHub.com/a/b/kustomization.yaml",
				"resources: []",
				"top/root@example/a/kustomization.yaml",
				"resources: []",
				"top/plugins.yaml",
				builtInLabels+"---\napiVersion: a/v1\nkind: Exec\nmetadata: {name: a}\n",
				"top/plugin.yaml",
				"apiVersion: a/v1\nkind: Exec\nmetadata: {name: a, annotations: {config.kubernetes.io/function: "+
					"'exec: {path: git}'}}\n",
			)
			in.Path = "top"
			_, err := Render(in)
			require.ErrorContains(t, err, "kustomization sample: ")
			require.ErrorContains(t, err, c.err)
			untouched()
		})
	}
}

const builtInLabels = "apiVersion: builtin\nkind: LabelTransformer\nmetadata: {name: a}\nlabels: {part-of: sample}\n" +
	"fieldSpecs: [{path: metadata/labels, create: true}]\n"

// KEDA's kustomization uses built-in transformers.
func TestBuiltInTransformersAreApplied(t *testing.T) {
	objects, err := Render(overlayOf(t, "kustomization.yaml",
		"resources: [a.yaml]\ntransformers:\n- labels.yaml\n- |\n  apiVersion: builtin\n  kind: PrefixTransformer\n"+
			"  metadata: {name: b}\n  prefix: my-\n  fieldSpecs: [{path: metadata/name}]\n",
		"labels.yaml", builtInLabels, "a.yaml", configMap("a")))
	require.NoError(t, err)
	require.Len(t, objects, 1)
	require.Equal(t, "my-a", objects[0].GetName())
	require.Equal(t, map[string]string{"part-of": "sample"}, objects[0].GetLabels())
}

func TestSchemasCannotReferToURLs(t *testing.T) {
	address, untouched := listening(t)
	_, err := Render(chartWith(t, configMap("a"), "values.schema.json", `{"$ref": "`+address+`/schema.json"}`))
	require.ErrorContains(t, err, address+"/schema.json is not part of the schema and is not fetched")
	untouched()
}

func TestHostileOverlaysAreRefused(t *testing.T) {
	cycle := func(folders ...string) []string {
		var files []string
		for i, folder := range folders {
			files = append(files, folder+"/kustomization.yaml", "resources: [../"+folders[(i+1)%len(folders)]+"]")
		}
		return files
	}
	doubling := []string{"l0/kustomization.yaml", "resources: [a.yaml]", "l0/a.yaml", configMap("a")}
	for i := 1; i < 30; i++ {
		doubling = append(doubling, fmt.Sprintf("l%d/kustomization.yaml", i), "resources: [left, right]",
			fmt.Sprintf("l%d/left/kustomization.yaml", i), fmt.Sprintf("namePrefix: x\nresources: [../../l%d]", i-1),
			fmt.Sprintf("l%d/right/kustomization.yaml", i), fmt.Sprintf("namePrefix: z\nresources: [../../l%d]", i-1))
	}
	// Each replacement doubles the previous value.
	var replacements strings.Builder
	replacements.WriteString("resources: [a.yaml]\nreplacements:\n")
	growing := configMap("a") + "data:\n  v0: xxxxxxxx\n"
	for i := 1; i < 40; i++ {
		growing += fmt.Sprintf("  v%d: p/%d/q\n", i, i)
		fmt.Fprintf(&replacements, "- source: {kind: ConfigMap, name: a, fieldPath: data.v%d}\n  targets:\n", i-1)
		for _, index := range []int{1, 0} {
			fmt.Fprintf(&replacements,
				"  - {select: {kind: ConfigMap}, fieldPaths: [data.v%d], options: {delimiter: /%[1]d/, index: %d}}\n",
				i, index)
		}
	}
	many := []string{"kustomization.yaml", "resources: []"}
	for i := range MaxEntries {
		many = append(many, fmt.Sprint(i), "")
	}
	at := func(path string, in Input) Input { in.Path = path; return in }
	in := func(kustomization string, more ...string) Input {
		return overlayOf(
			t,
			append([]string{"kustomization.yaml", kustomization, "a.yaml", configMap("a") + "data: {x: a-b}\n"},
				more...)...)
	}
	requireRefused(t, map[string]attack{
		"kustomization that refers to itself": {in: in("resources: [.]"), want: "folder . refers to itself"},
		"kustomization that refers to its parent": {
			in: at("a/b",
				overlayOf(t, "a/b/kustomization.yaml", "resources: [..]", "a/kustomization.yaml", "resources: [b]")),
			want: "refers to itself",
		},
		"cycle of two kustomizations": {
			in:   at("a", overlayOf(t, cycle("a", "b")...)),
			want: "folder a refers to itself through other kustomizations",
		},
		"cycle of five kustomizations": {
			in: at("a", overlayOf(t, cycle("a", "b", "c", "d", "e")...)), want: "refers to itself",
		},
		"bases that double with each folder": {
			in: at("l29", overlayOf(t, doubling...)), want: "requires more than 200 kustomizations",
		},
		"values that double with replacements": {
			in:   overlayOf(t, "kustomization.yaml", replacements.String(), "a.yaml", growing),
			want: "needs more than 256 MiB of memory",
		},
		"aliases in a resource": {
			in:   in("resources: [a.yaml, bomb.yaml]", "bomb.yaml", bomb(9)),
			want: "bomb.yaml: document 1: more than 400000 values",
		},
		"aliases in a patch": {
			in:   in("resources: [a.yaml]\npatches: [{path: p}]", "p", bomb(9)),
			want: "p: document 1: more than 400000 values",
		},
		"aliases in the kustomization": {
			in: in(bomb(9)), want: "kustomization.yaml: document 1: more than 200000 values",
		},
		"aliases in an inline patch": {
			in:   in("resources: [a.yaml]\npatches:\n- patch: |-\n    " + strings.ReplaceAll(bomb(9), "\n", "\n    ")),
			want: "patches[0]: document 1: more than 400000 values",
		},
		"resource of 30 MiB": {
			in:   in("resources: [b.yaml]", "b.yaml", configMap("a")+"data: {x: "+strings.Repeat("x", 30<<20)+"}"),
			want: "must be at most 8388608",
		},
		"too many files": {in: overlayOf(t, many...), want: "more than 2000 entries"},
		"zip bomb": {
			in:   Input{Content: zeros(t, 1<<30), Packed: v1beta2.Kustomize, Release: "sample"},
			want: "unpack to more than",
		},
		"symbolic link": {
			in: Input{
				Content: archive(
					t,
					member{
						Header: tar.Header{
							Name: "kustomization.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd",
						},
					},
				),
				Packed: v1beta2.Kustomize,
			},
			want: "not a file or folder",
		},
		"path outside of the archive": {
			in:   Input{Content: archive(t, yamlFile("../kustomization.yaml", "")), Packed: v1beta2.Kustomize},
			want: "is outside of the folder",
		},
		"YAML instead of an archive": {
			in:   Input{Content: []byte("resources: []"), Packed: v1beta2.Kustomize, Release: "sample"},
			want: "kustomization sample: ",
		},
		"duplicate object": {
			in:   in("resources: [a.yaml, b.yaml]", "b.yaml", configMap("a")),
			want: "kustomization sample: ",
		},
		"no objects": {in: in("resources: []"), want: "kustomization sample: "},
		"too many objects": {
			in:   in("resources: [b.yaml]", "b.yaml", manyObjects(MaxObjects+1)),
			want: "more than 2000",
		},
	})
}
