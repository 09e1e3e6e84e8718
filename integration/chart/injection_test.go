package chart

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chartutil"
)

// texts calls the function visit for each string in values. The function visit can call its argument set to replace
// the string.
func texts(values any, path string, visit func(path, text string, set func(string))) {
	switch values := values.(type) {
	case map[string]any:
		for key, value := range values {
			if text, ok := value.(string); ok {
				visit(path+"."+key, text, func(next string) { values[key] = next })
			}
			texts(value, path+"."+key, visit)
		}
	case []any:
		for i, value := range values {
			if text, ok := value.(string); ok {
				visit(fmt.Sprintf("%s[%d]", path, i), text, func(next string) { values[i] = next })
			}
			texts(value, fmt.Sprintf("%s[%d]", path, i), visit)
		}
	}
}

// A string in a chart value must not add fields to a rendered object or break its YAML.
func TestTextsInValuesCannotAddFields(t *testing.T) {
	const field = "injected"
	for name, r := range cases(t) {
		if !strings.HasSuffix(name, "-full") {
			continue
		}
		renderer := newTextRenderer(t, r.Dir)
		values, err := chartutil.CoalesceValues(renderer.chart, r.Values)
		require.NoError(t, err)
		data, err := json.Marshal(values)
		require.NoError(t, err)
		var every map[string]any
		require.NoError(t, json.Unmarshal(data, &every))
		visited := 0
		texts(every, "", func(path, text string, set func(string)) {
			visited++
			defer set(text)
			for _, suffix := range []string{"\n  " + field + ": true", `": {`} {
				set(text + suffix)
				options := chartutil.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, Revision: 1, IsInstall: true}
				rendered, ok := renderer.render(t, every, options)
				if !ok {
					continue
				}
				for file, text := range rendered {
					objects, err := renderer.objects(file, text)
					if err != nil {
						t.Errorf("%s: value %s with suffix %q: %v", name, path, suffix, err)
					}
					for _, o := range objects {
						if hasField(o.Object, field) {
							t.Errorf("%s: value %s with suffix %q adds a field to %s %s", name, path, suffix, o.GetKind(),
								o.GetName())
						}
					}
				}
			}
		})
		require.Greater(t, visited, 30)
	}
}

func hasField(node any, name string) bool {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			if key == name || hasField(value, name) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(node, func(value any) bool { return hasField(value, name) })
	}
	return false
}
