package assemble

import (
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// scaledChart returns a chart with a schema that requires an integer and a boolean.
func scaledChart(t *testing.T) Files {
	t.Helper()
	files, err := Read(folder(t, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: mailer\nversion: 1.0.0\n", "values.yaml": "replicas: 1\nha: false\n",
		"values.schema.json": `{"properties": {"replicas": {"type": "integer", "minimum": 1}, ` +
			`"ha": {"type": "boolean"}}}`,
		"templates/a.yaml": "apiVersion: apps/v1\nkind: Deployment\n" +
			"metadata: {name: a, labels: {region: \"{{ .Values.region }}\"}}\n" +
			"spec: {replicas: {{ add .Values.replicas 1 }}}\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestChartIsCheckedWithSampleRuntimeValues(t *testing.T) {
	files := scaledChart(t)
	err := files.SetValues(nil, []string{"replicas=${kyma-pull.dev/values.size:int}",
		"ha=${kyma-pull.dev/values.ha:bool}", "region=x"})
	if err != nil {
		t.Fatal(err)
	}
	files.DefaultCR = []byte("apiVersion: example.org/v1\nkind: Mailer\nmetadata: {name: a}\n" +
		"spec: {region: 'in ${kyma-pull.dev/values.region}', size: '${kyma-pull.dev/values.size:int}'}\n")
	if _, err := files.Check(t.Context(), "mailer", inProcess); err != nil {
		t.Error(err)
	}
	refs, err := files.ValueRefs()
	if want := []bundle.ValueRef{"ha:bool", "region", "size:int"}; err != nil || !slices.Equal(refs, want) {
		t.Errorf("got references %v and error %v, want %v", refs, err, want)
	}
	if !strings.Contains(string(files.Values), "${kyma-pull.dev/values.size:int}") {
		t.Errorf("got values %s, want the placeholders", files.Values)
	}
}

func TestPlaceholdersThatAgentsRefuseAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ value, cr, want string }{
		"unknown type": {"${kyma-pull.dev/values.size:float}", "", "chart values: replicas: value \"size:float\""},
		"type in a text": {"at-most-${kyma-pull.dev/values.size:int}", "",
			"chart values: replicas: value size:int: a placeholder with a type must be the whole string"},
		"invalid name in the default CR": {"1", "spec: {size: '${kyma-pull.dev/values.Size}'}",
			"default CR: spec: size: value name"},
		"default CR with a placeholder in its name": {"1", "metadata: {name: '${kyma-pull.dev/values.size}'}",
			"default CR: metadata: value placeholders are not allowed"},
	} {
		files := scaledChart(t)
		if err := files.SetValues(nil, []string{"replicas=" + c.value, "region=x"}); err != nil {
			t.Fatal(err)
		}
		files.DefaultCR = []byte(c.cr)
		_, err := files.Check(t.Context(), "mailer", inProcess)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", name, err, c.want)
		}
	}
}
