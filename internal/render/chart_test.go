package render

import (
	"archive/tar"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"helm.sh/helm/v3/pkg/releaseutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

var kubernetes = Capabilities{Version: "v1.36.3", APIVersions: []string{"v1", "apps/v1", "apps/v1/Deployment"}}

// packed returns a packaged chart. The list files alternates between file names and contents.
func packed(t testing.TB, files ...string) []byte {
	var members []member
	for i := 0; i < len(files); i += 2 {
		members = append(members, yamlFile("sample/"+files[i], files[i+1]))
	}
	return zipped(t, archive(t, members...))
}

// chartWith returns a chart with one template and more files.
func chartWith(t testing.TB, template string, more ...string) Input {
	files := append(
		[]string{"Chart.yaml", "apiVersion: v2\nname: sample\nversion: 1.0.0\n", "templates/all.yaml", template},
		more...)
	return Input{
		Content:    packed(t, files...),
		Packed:     v1beta2.HelmChart,
		Release:    "sample",
		Namespace:  "kyma-system",
		Kubernetes: kubernetes,
	}
}

// settingsMap returns the template for a ConfigMap with one value.
func settingsMap(value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata:\n  value: " + value + "\n"
}

func rendered(t testing.TB, in Input) map[string]any {
	objects, err := Render(in)
	require.NoError(t, err)
	require.Len(t, objects, 1)
	return objects[0].Object
}

// scenario reads a txtar file and returns its files. The file values.yaml contains the module's values.
func scenario(t *testing.T, file string) (members []member, values []byte) {
	a, err := txtar.ParseFile(file)
	require.NoError(t, err)
	for _, f := range a.Files {
		if f.Name == "values.yaml" {
			values = f.Data
			continue
		}
		members = append(members, yamlFile(f.Name, string(f.Data)))
	}
	return members, values
}

// requireSameRendering packs the members in different orders, with and without compression, and renders each archive.
// All results must match the golden file.
func requireSameRendering(t *testing.T, name string, in Input, members []member) {
	for i := range 5 {
		in.Content = archive(t, members...)
		if i%2 == 0 {
			in.Content = zipped(t, in.Content)
		}
		objects, err := Render(in)
		require.NoError(t, err)
		golden(t, name, objects)
		rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	}
}

func TestChartRendersLikeHelm(t *testing.T) {
	members, values := scenario(t, "testdata/charts/everything.txtar")
	requireSameRendering(t, "charts/everything", Input{
		Packed: v1beta2.HelmChart, Values: values, Release: "big", Namespace: "kyma-system", Kubernetes: kubernetes,
	}, members)
}

func TestOverlayRendersLikeKustomize(t *testing.T) {
	members, _ := scenario(t, "testdata/overlays/production.txtar")
	requireSameRendering(t, "overlays/production", Input{
		Packed: v1beta2.Kustomize, Path: "overlays/production", Release: "app",
	}, members)
}

// podinfo returns the chart and values of a real component.
func podinfo(t testing.TB) Input {
	blobs := filepath.Join("..", "..", "..", "..", "shared", "realworld", "ctf", "podinfo-6.14.1-signed", "blobs")
	in := Input{Packed: v1beta2.HelmChart, Release: "podinfo", Namespace: "podinfo", Kubernetes: kubernetes}
	for prefix, into := range map[string]*[]byte{"sha256.969afa": &in.Content, "sha256.f57079": &in.Values} {
		found, err := filepath.Glob(filepath.Join(blobs, prefix+"*"))
		require.NoError(t, err)
		if len(found) != 1 {
			t.Skip("needs podinfo-6.14.1-signed in shared/realworld/ctf")
		}
		*into, err = os.ReadFile(found[0])
		require.NoError(t, err)
	}
	return in
}

func TestRealChartFromArtifactIsRendered(t *testing.T) {
	in := podinfo(t)
	objects, err := Render(in)
	require.NoError(t, err)
	golden(t, "charts/podinfo", objects)
}

func TestPackagedSubchartIsRendered(t *testing.T) {
	inner := packed(t, "Chart.yaml", "apiVersion: v2\nname: inner\nversion: 0.1.0\n", "values.yaml", "who: nobody\n",
		"templates/all.yaml", settingsMap("{{ .Values.who }}"))
	in := chartWith(t, "", "charts/inner-0.1.0.tgz", string(inner), "charts/_draft.tgz", "not read")
	in.Values = []byte("inner: {who: somebody}")
	require.Equal(t, map[string]any{"value": "somebody"}, rendered(t, in)["data"])
}

func TestChartConfigLayerAcceptsValuesAndConfigs(t *testing.T) {
	template := settingsMap(`{{ printf "%v/%v" .Values.a.b .Values.c | quote }}`)
	for name, c := range map[string]struct{ layer, want, err string }{
		"no values":             {"", "x/z", ""},
		"mapping of values":     {"a: {b: 1}", "1/z", ""},
		"mapping with an alias": {"a: &a {b: 1}\nd: *a", "1/z", ""},
		"overrides in configs":  {"configs: [{name: any, overrides: 'a.b=1,c=two'}]", "1/two", ""},
		"clientConfig without effect": {
			"configs: [{name: any, clientConfig: 'CreateNamespace=true,Namespace=kyma-system'}]", "x/z", "",
		},
		"configs for several charts": {
			"configs: [{name: other, overrides: c=o}, {name: sample, overrides: c=s}]", "x/s", "",
		},
		"chart with its own value configs": {"configs: [{name: q}]\nc: 2", "x/2", ""},
		"clientConfig with the wrong namespace": {
			"configs: [{name: any, clientConfig: Namespace=default}]", "",
			"Namespace is default, but the module is installed in kyma-system",
		},
		"configs only for other charts": {
			"configs: [{name: a, overrides: c=1}, {name: b}]", "", "none of the names a, b matches chart sample",
		},
		"unsupported field in configs": {
			"configs: [{name: any, url: 'https://example.org'}]", "", "configs[0].url is not supported",
		},
		"configs entry without a name": {"configs: [{overrides: c=1}]", "", "configs[0] has no name"},
		"malformed overrides": {
			"configs: [{name: any, overrides: 'a.b'}]", "", "config layer: overrides: key",
		},
		"list instead of a mapping": {"[1, 2]", "", "config layer is not a mapping of values"},
		"invalid YAML":              {"a: [", "", "config layer: line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			in := chartWith(t, template, "values.yaml", "a: {b: x}\nc: z\n")
			in.Values = []byte(c.layer)
			if c.err == "" {
				require.Equal(t, map[string]any{"value": c.want}, rendered(t, in)["data"])
				return
			}
			_, err := Render(in)
			require.ErrorContains(t, err, "chart sample: ")
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestSubstitutedValuesCannotInjectOtherValues(t *testing.T) {
	hostile := "x,c=injected\nc: injected # {{ .Release.Name }}"
	substitute := bundle.ModuleValues{"region": &hostile}
	template := settingsMap(`{{ printf "%v/%v" .Values.a.b .Values.c | quote }}`)
	for name, layer := range map[string]string{
		"placeholder in a mapping": "a: {b: '${kyma-pull.dev/values.region}'}",
		"placeholder in overrides": "configs: [{name: any, overrides: 'a.b=${kyma-pull.dev/values.region}'}]",
	} {
		in := chartWith(t, template, "values.yaml", "a: {b: x}\nc: z\n")
		in.Values, in.Substitute = []byte(layer), substitute
		require.Equal(t, map[string]any{"value": hostile + "/z"}, rendered(t, in)["data"], name)
	}
	in := chartWith(t, template, "values.yaml", "a: {b: x}\nc: z\n")
	in.Values, in.Substitute = []byte("a: {b: '${kyma-pull.dev/values.zone}'}"), substitute
	_, err := Render(in)
	require.ErrorContains(t, err, "is not listed in annotation")
}

func TestTemplatesReceiveTypedValuesAsNumbersAndBooleans(t *testing.T) {
	size, ha := "1000000", "false"
	template := settingsMap(`{{ printf "%v/%t/%d" .Values.size .Values.ha (add .Values.size 1) | quote }}`)
	in := chartWith(t, template, "values.yaml", "size: 1\nha: true\n", "values.schema.json",
		`{"properties": {"size": {"type": "integer"}, "ha": {"type": "boolean"}}}`)
	in.Values = []byte("size: ${kyma-pull.dev/values.size:int}\nha: ${kyma-pull.dev/values.ha:bool}\n")
	in.Substitute = bundle.ModuleValues{"size:int": &size, "ha:bool": &ha}
	require.Equal(t, map[string]any{"value": "1000000/false/1000001"}, rendered(t, in)["data"])
}

func TestJobsWithInstallHooksAreOrdered(t *testing.T) {
	object := func(apiVersion, kind, name, hook, weight string) string {
		text := "---\napiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata:\n  name: " + name + "\n"
		if hook != "" {
			text += "  annotations: {helm.sh/hook: '" + hook + "', helm.sh/hook-weight: '" + weight + "'}\n"
		}
		return text
	}
	objects, err := Render(chartWith(t, object("batch/v1", "Job", "last", "post-install,post-upgrade", "")+
		object("apps/v1", "Deployment", "operator", "", "")+object("v1", "Service", "operator", "", "")+
		object("batch/v1", "Job", "second", "pre-install,pre-upgrade", "1")+object("batch/v1", "Job", "first",
		"pre-install", "-1")+
		object("v1", "ServiceAccount", "first", "pre-install", "-1")+object("batch/v1", "Job", "never", "test", "")))
	require.NoError(t, err)
	var names []string
	for _, o := range objects {
		names = append(names, Name(o))
		if isJob(o) {
			require.Equal(t, v1beta2.True, o.GetAnnotations()[v1beta2.AnnotationRecreate], Name(o))
		}
	}
	require.Equal(
		t,
		[]string{
			"ServiceAccount first", "Job first", "Job second", "Service operator", "Deployment operator", "Job last",
		},
		names,
	)
}

func TestTestHooksAreRenderedSeparately(t *testing.T) {
	job := func(name, hook string) string {
		return "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: " + name + ", annotations: {helm.sh/hook: '" + hook +
			"'}}\n"
	}
	in := chartWith(t, job("a", "test")+job("b", "post-install, Test-Success")+job("c", "test-failure")+
		job("d", "post-install"))
	in.TestHooks = true
	objects, err := Render(in)
	require.NoError(t, err)
	require.Len(t, objects, 2)
	require.Equal(t, []string{"Job a", "Job b"}, []string{Name(objects[0]), Name(objects[1])})
	in = chartWith(t, job("d", "post-install"))
	in.TestHooks = true
	objects, err = Render(in)
	require.NoError(t, err)
	require.Empty(t, objects)
}

func TestUnsupportedHooksAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ kind, hook, err string }{
		"Job with only a pre-upgrade hook": {
			"batch/v1 Job", "pre-upgrade", "Job x: the agent does not run a Job with hook pre-upgrade: disable it",
		},
		"Job with install and delete hooks": {
			"batch/v1 Job", "post-install,pre-delete",
			"Job x: a Job with hook post-install,pre-delete also runs at deletion",
		},
		"Pod with a pre-install hook": {
			"v1 Pod", "pre-install", "does not run a Pod with hook pre-install",
		},
		"Job with only test and post-upgrade hooks": {
			"batch/v1 Job", "test, post-upgrade", "a Job with hook post-upgrade",
		},
		"Pod with a pre-delete hook": {"v1 Pod", "pre-delete", "a Pod with hook pre-delete"},
		"Secret with only a post-delete hook": {
			"v1 Secret", "post-delete", "does not create an object with only hook post-delete",
		},
		"unknown hook":                         {"v1 Secret", "pre-lunch", `unknown hook "pre-lunch"`},
		"Job with only a test hook":            {"batch/v1 Job", "test", "content has no objects"},
		"Secret with install and delete hooks": {"v1 Secret", "Pre-Install,pre-delete", ""},
		"kind Job of another API group":        {"example.org/v1 Job", "pre-install", ""},
	} {
		t.Run(name, func(t *testing.T) {
			version, kind, _ := strings.Cut(c.kind, " ")
			in := chartWith(
				t,
				"apiVersion: "+version+"\nkind: "+kind+"\nmetadata: {name: x, annotations: {helm.sh/hook: '"+c.hook+
					"'}}\n",
			)
			if c.err == "" {
				require.Contains(t, rendered(t, in)["metadata"], "annotations")
				return
			}
			_, err := Render(in)
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestObjectWithResourcePolicyKeepIsKeptOnRemoval(t *testing.T) {
	objects, err := Render(
		chartWith(
			t,
			"apiVersion: v1\nkind: Secret\nmetadata: {name: a, annotations: {helm.sh/resource-policy: keep}}\n---\n"+
				configMap("b"),
		),
	)
	require.NoError(t, err)
	require.True(t, KeepsOnRemoval(objects[0]))
	require.False(t, KeepsOnRemoval(objects[1]))
}

func TestInvalidChartsAreRefused(t *testing.T) {
	head := "apiVersion: v2\nname: sample\nversion: 1.0.0\n"
	for name, c := range map[string]struct {
		files []string
		err   string
	}{
		"library chart": {
			[]string{"Chart.yaml", head + "type: library\n"}, "chart sample: a library chart cannot be installed",
		},
		"unsupported Kubernetes version": {
			[]string{"Chart.yaml", head + "kubeVersion: <1.20.0\n"},
			"requires Kubernetes <1.20.0, but the cluster has v1.36.3",
		},
		"missing dependency": {
			[]string{"Chart.yaml", head + "dependencies: [{name: gone, version: 1.0.0}]\n"},
			"dependency gone is not in charts/",
		},
		"missing Chart.yaml": {[]string{"values.yaml", ""}, "Chart.yaml file is missing"},
		"chart name with a path": {
			[]string{"Chart.yaml", "apiVersion: v2\nname: ../../evil\nversion: 1.0.0\n"},
			`chart.metadata.name "../../evil" is invalid`,
		},
		"chart name ..": {
			[]string{"Chart.yaml", "apiVersion: v2\nname: ..\nversion: 1.0.0\n"},
			`chart.metadata.name ".." is not allowed`,
		},
		"alias with a path": {
			[]string{"Chart.yaml", head + "dependencies: [{name: a, alias: ../b}]\n"},
			"disallowed characters in the alias",
		},
		"subchart with the same name and version": {
			[]string{"Chart.yaml", head, "charts/a/Chart.yaml", "apiVersion: v2\nname: in\nversion: 1.0.0\n",
				"charts/b/Chart.yaml", "apiVersion: v2\nname: in\nversion: 1.0.0\n"},
			"charts/ contains in 1.0.0 twice"},
		"subcharts with the same name": {
			[]string{"Chart.yaml", head, "charts/a/Chart.yaml", "apiVersion: v2\nname: in\nversion: 1.0.0\n",
				"charts/b/Chart.yaml", "apiVersion: v2\nname: in\nversion: 2.0.0\n"},
			"sample has two charts named in in charts/: set an alias for one of them"},
		"template that calls fail": {
			[]string{"Chart.yaml", head, "templates/a.yaml", `{{ fail "set a host" }}`},
			"sample/templates/a.yaml:1:3): set a host",
		},
		"template with a syntax error": {
			[]string{"Chart.yaml", head, "templates/a.yaml", "{{ if }}"}, "sample/templates/a.yaml:1",
		},
		"object without a name": {
			[]string{"Chart.yaml", head, "templates/a.yaml", "apiVersion: v1\nkind: Secret\n"},
			"sample/templates/a.yaml, document 1: Secret without metadata.name",
		},
		"template that reads the environment": {
			[]string{"Chart.yaml", head, "templates/a.yaml", `{{ env "HOME" }}`}, `function "env" not defined`,
		},
		"duplicate object": {
			[]string{"Chart.yaml", head, "templates/a.yaml", configMap("x"), "crds/x.yaml", configMap("x")},
			"is already in sample/crds/x.yaml, document 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(
				Input{
					Content: packed(t, c.files...), Packed: v1beta2.HelmChart, Release: "sample",
					Kubernetes: kubernetes,
				},
			)
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestContentThatIsNotAChartIsRefused(t *testing.T) {
	chart := "apiVersion: v2\nname: a\nversion: 1.0.0\n"
	for name, c := range map[string]struct {
		content []byte
		err     string
	}{
		"YAML instead of an archive": {[]byte(configMap("a")), "content is not an archive: create it with `helm package`"},
		"empty content":              {nil, "content is not an archive"},
		"files without a folder": {
			archive(t, yamlFile("Chart.yaml", chart), yamlFile("values.yaml", "")),
			"Chart.yaml is not in the chart's folder",
		},
		"files in two folders": {
			archive(t, yamlFile("a/Chart.yaml", chart), yamlFile("b/Chart.yaml", chart)),
			"b/Chart.yaml is not in the chart's folder a",
		},
		"archive without files": {
			archive(t, member{Header: tar.Header{Name: "a/", Typeflag: tar.TypeDir}}),
			"the archive does not contain files",
		},
		"artifact without a chart": {
			archive(t, yamlFile("oci-layout", "{}"), yamlFile("index.json", "{}")), "chart sample: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(Input{
				Content: c.content, Packed: v1beta2.HelmChart, Release: "sample", Kubernetes: kubernetes,
			})
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestInstallOrderMatchesHelm(t *testing.T) {
	require.Equal(t, []string(releaseutil.InstallOrder), installOrder)
}

func TestOutputIsSplitAsInHelm(t *testing.T) {
	for _, text := range []string{
		"", "\n\n", "a: 1", "---\na: 1\n", "a: 1\n---\nb: 1", "a: 1\n--- # comment\nb: 1\n---", "---a: 1\n  ---\n",
		"a: |\n  ---\n\n\n---  \n\nb: 1\n---\n# c\n",
	} {
		helms := releaseutil.SplitManifests(text)
		var want []string
		for i := range len(helms) {
			if one := helms[fmt.Sprintf("manifest-%d", i)]; one != "" && one != "---" {
				want = append(want, one)
			}
		}
		require.Equal(t, want, split(text), "%q", text)
	}
}
