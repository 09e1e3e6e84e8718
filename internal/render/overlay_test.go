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

// overlayOf is a tar of files given as name and text in turn.
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
		"at the top":         {"", []string{"kustomization.yaml", k, "a.yaml", configMap("a")}, ""},
		"by another name":    {"", []string{"Kustomization", k, "a.yaml", configMap("a")}, ""},
		"where it is stated": {"x/y/", []string{"x/y/kustomization.yml", k, "x/y/a.yaml", configMap("a")}, ""},
		"two of them": {
			"", []string{"kustomization.yaml", k, "kustomization.yml", k},
			"kustomization.yaml, kustomization.yml: keep one of them",
		},
		"only below": {
			"", []string{"b/kustomization.yaml", k, "a/kustomization.yaml", k},
			"no kustomization.yaml at the top of the content, only in a, b",
		},
		"elsewhere":         {"c", []string{"b/kustomization.yaml", k}, "no kustomization.yaml at c, only in b"},
		"none at all":       {"", []string{"a.yaml", configMap("a")}, "content has no kustomization.yaml"},
		"above the content": {"../x", []string{"kustomization.yaml", k}, `path "../x" leaves the content`},
		"of the node":       {"/etc", []string{"kustomization.yaml", k}, `path "/etc" leaves the content`},
		"with a broken file": {
			"", []string{"kustomization.yaml", k, "a.yaml", "a: ["},
			"kustomization sample: kustomization.yaml: a.yaml: document 1: ",
		},
		"with a typo": {"", []string{"kustomization.yaml", "resource: [a.yaml]"}, `unknown field "resource"`},
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

// listening is a server that must not be asked, and a git that must not be run.
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
		require.Zero(t, asked.Load(), "something was fetched")
		_, err := os.Stat(ran)
		require.ErrorIs(t, err, os.ErrNotExist, "git was run")
	}
}

func TestOverlaysReachNothingOutside(t *testing.T) {
	address, untouched := listening(t)
	base := "resources: [a.yaml]\n"
	for name, c := range map[string]struct{ kustomization, err string }{
		"a URL": {
			"resources: ['" + address + "/a.yaml']", "is an address, but rendering fetches nothing",
		},
		"an older base":            {"bases: ['" + address + "/a']", "is an address"},
		"a component":              {"components: ['" + address + "/a']", "is an address"},
		"a repository":             {"resources: ['https://github.com/a/b//c?ref=main']", "is an address"},
		"github without scheme":    {"resources: [github.com/a/b]", "is an address"},
		"GitHub that is a folder":  {"resources: [GitHub.com/a/b]", "is an address"},
		"by ssh":                   {"resources: ['git@example.org:a/b']", "is an address"},
		"by a go-getter":           {"resources: ['git::https://example.org/a']", "is an address"},
		"a repository on the node": {"resources: ['file:///etc']", "is an address"},
		"a user and a path":        {"resources: [root@example/a]", "is an address"},
		"a patch":                  {base + "patches: [{path: '" + address + "'}]", "is an address"},
		"an older patch": {
			base + "patchesStrategicMerge: ['" + address + "']", "patchesStrategicMerge[0]: " + address +
				": is an address",
		},
		"an older JSON patch": {
			base + "patchesJson6902: [{path: '" + address + "', target: {kind: A, name: a, version: v1}}]",
			"is an address",
		},
		"a replacement":             {base + "replacements: [{path: '" + address + "'}]", "is an address"},
		"a schema":                  {base + "openapi: {path: '" + address + "'}", "is an address"},
		"a transformer's settings":  {base + "configurations: ['" + address + "']", "is an address"},
		"a definition":              {base + "crds: ['" + address + "']", "is an address"},
		"a generator's file":        {"configMapGenerator: [{name: a, files: ['k=" + address + "']}]", "is an address"},
		"a generator's environment": {"secretGenerator: [{name: a, envs: ['" + address + "']}]", "is an address"},
		"a generator's older form":  {"secretGenerator: [{name: a, env: '" + address + "'}]", "is an address"},
		"a file of the node": {
			"configMapGenerator: [{name: a, files: [/etc/passwd]}]", "/etc/passwd: leaves the content",
		},
		"a file above": {
			"configMapGenerator: [{name: a, files: [../../etc/passwd]}]", "../../etc/passwd: leaves the content",
		},
		"a file that is not there": {"resources: [b.yaml]", "b.yaml: is not in the content"},
		"a file with a blank": {
			"configMapGenerator: [{name: a, files: ['a b']}]", "a b: has unsupported characters",
		},
		"a file of another overlay": {
			"configMapGenerator: [{name: a, files: [../other/secret]}]", "is not in or below",
		},
		"a chart": {
			"helmCharts: [{name: a, repo: '" + address + "'}]",
			"helmCharts: charts are not inflated here: pack the module as helm-chart",
		},
		"an older chart": {
			"helmChartInflationGenerator: [{chartName: a}]",
			"helmChartInflationGenerator: charts are not inflated here",
		},
		"a chart by a generator": {
			"generators: ['{apiVersion: builtin, kind: HelmChartInflationGenerator, metadata: {name: a}, name: a}']",
			"generators: plugins are not run",
		},
		"a program":   {base + "transformers: [plugin.yaml]", "transformers: plugins are not run"},
		"a container": {base + "validators: [plugin.yaml]", "validators: plugins are not run"},
		"fields in capitals": {
			"HelmCharts: [{name: a, repo: '" + address + "'}]", "charts are not inflated here",
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

func TestSchemasFetchNothing(t *testing.T) {
	address, untouched := listening(t)
	_, err := Render(chartWith(t, configMap("a"), "values.schema.json", `{"$ref": "`+address+`/schema.json"}`))
	require.ErrorContains(t, err, address+"/schema.json is not part of the schema, and nothing is fetched")
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
	// Each value holds the one before it twice.
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
	fend(t, map[string]attack{
		"itself": {in: in("resources: [.]"), want: ".: refers to itself"},
		"the folder above": {
			in: at("a/b",
				overlayOf(t, "a/b/kustomization.yaml", "resources: [..]", "a/kustomization.yaml", "resources: [b]")),
			want: "refers to itself",
		},
		"a cycle of two": {
			in:   at("a", overlayOf(t, cycle("a", "b")...)),
			want: "a: refers to itself through other kustomizations",
		},
		"a cycle of five":   {in: at("a", overlayOf(t, cycle("a", "b", "c", "d", "e")...)), want: "refers to itself"},
		"bases that double": {in: at("l29", overlayOf(t, doubling...)), want: "needs more than 200 kustomizations"},
		"replacements that grow": {
			in:   overlayOf(t, "kustomization.yaml", replacements.String(), "a.yaml", growing),
			want: "needs more than 256 MiB of memory",
		},
		"aliases in a file": {
			in:   in("resources: [a.yaml, bomb.yaml]", "bomb.yaml", bomb(9)),
			want: "bomb.yaml: document 1: more than 400000 values",
		},
		"aliases in a patch": {
			in:   in("resources: [a.yaml]\npatches: [{path: p}]", "p", bomb(9)),
			want: "p: document 1: more than 400000 values",
		},
		"aliases in the overlay": {in: in(bomb(9)), want: "kustomization.yaml: document 1: more than 200000 values"},
		"aliases in an inline": {
			in:   in("resources: [a.yaml]\npatches:\n- patch: |-\n    " + strings.ReplaceAll(bomb(9), "\n", "\n    ")),
			want: "patches[0]: document 1: more than 400000 values",
		},
		"a file of 30 MiB": {
			in:   in("resources: [b.yaml]", "b.yaml", configMap("a")+"data: {x: "+strings.Repeat("x", 30<<20)+"}"),
			want: "at most 8388608",
		},
		"thousands of files": {in: overlayOf(t, many...), want: "more than 2000 entries"},
		"a zip bomb": {
			in:   Input{Content: zeros(t, 1<<30), Packed: v1beta2.Kustomize, Release: "sample"},
			want: "unpack to more than",
		},
		"a link": {
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
			want: "neither file nor folder",
		},
		"a path out": {
			in:   Input{Content: archive(t, yamlFile("../kustomization.yaml", "")), Packed: v1beta2.Kustomize},
			want: "leaves its folder",
		},
		"YAML and no archive": {
			in:   Input{Content: []byte("resources: []"), Packed: v1beta2.Kustomize, Release: "sample"},
			want: "kustomization sample: ",
		},
		"an object twice": {
			in:   in("resources: [a.yaml, b.yaml]", "b.yaml", configMap("a")),
			want: "kustomization sample: ",
		},
		"nothing": {in: in("resources: []"), want: "kustomization sample: "},
		"too many objects": {
			in:   in("resources: [b.yaml]", "b.yaml", manyObjects(MaxObjects+1)),
			want: "more than 2000",
		},
	})
}
