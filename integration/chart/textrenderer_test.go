package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// textRenderer renders a chart with many similar values. It compiles the schema once and decodes equal files once,
// because both steps take longer than rendering the templates.
type textRenderer struct {
	chart   *helmchart.Chart
	schema  *jsonschema.Schema
	decoded map[string]decodedFile // by content
}

type decodedFile struct {
	objects []*unstructured.Unstructured
	err     error
}

// newTextRenderer loads a chart without its largest files, which do not use chart values.
func newTextRenderer(t *testing.T, dir string) *textRenderer {
	t.Helper()
	loaded, err := loader.LoadDir(dir)
	require.NoError(t, err)
	loaded.Templates = slices.DeleteFunc(loaded.Templates, func(f *helmchart.File) bool {
		return strings.HasSuffix(f.Name, "dashboards.yaml") || strings.HasSuffix(f.Name, "prometheusrule.yaml")
	})
	for _, f := range loaded.Templates {
		if strings.HasSuffix(f.Name, "crds.yaml") {
			f.Data = nil
		}
	}
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(string(loaded.Schema)))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("file:///values.schema.json", text))
	schema, err := compiler.Compile("file:///values.schema.json")
	require.NoError(t, err)
	return &textRenderer{chart: loaded, schema: schema, decoded: map[string]decodedFile{}}
}

// render returns the rendered YAML files. It returns false if the schema or a template rejects the values.
func (r *textRenderer) render(t *testing.T, values map[string]any, options chartutil.ReleaseOptions) (
	map[string]string, bool,
) {
	t.Helper()
	if r.schema.Validate(values) != nil {
		return nil, false
	}
	input, err := chartutil.ToRenderValuesWithSchemaValidation(r.chart, values, options, nil, true)
	require.NoError(t, err)
	rendered, err := engine.Render(r.chart, input)
	if err != nil {
		return nil, false
	}
	for file := range rendered {
		if !strings.HasSuffix(file, ".yaml") {
			delete(rendered, file)
		}
	}
	return rendered, true
}

// objects decodes a rendered file. Callers must not change the objects.
func (r *textRenderer) objects(file, text string) ([]*unstructured.Unstructured, error) {
	known, ok := r.decoded[text]
	if !ok {
		known.objects, known.err = Rendered{Templates: map[string]string{file: text}}.Objects()
		r.decoded[text] = known
	}
	return known.objects, known.err
}
