package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/kyma-pull/kyma-pull/hack/suite"
)

// scalars returns strings that YAML parses as a number or boolean. It maps each of them to similar text that YAML
// parses as a string. The short suite renders the charts only with the number.
func scalars() map[string]string {
	if suite.Selected() {
		return map[string]string{"123": "12x", "true": "trux"}
	}
	return map[string]string{"123": "12x"}
}

// A name such as 123 or true is valid in Kubernetes, but YAML reads it as a number or boolean unless it is quoted.
func TestTextsInValuesStayStrings(t *testing.T) {
	for name, r := range cases(t) {
		if strings.HasSuffix(name, "-default") || strings.HasSuffix(name, "-takeover") {
			continue // the other cases cover these values
		}
		renderer := newTextRenderer(t, r.Dir)
		values, err := chartutil.CoalesceValues(renderer.chart, r.Values)
		require.NoError(t, err)
		data, err := json.Marshal(values)
		require.NoError(t, err)
		var every map[string]any
		require.NoError(t, json.Unmarshal(data, &every))
		every["release"] = map[string]any{"name": r.Name, "namespace": r.Namespace}
		objects := func() ([]any, bool) {
			release := every["release"].(map[string]any)
			given := maps.Clone(every)
			delete(given, "release")
			options := chartutil.ReleaseOptions{
				Name: release["name"].(string), Namespace: release["namespace"].(string), Revision: 1, IsInstall: true,
			}
			rendered, ok := renderer.render(t, given, options)
			if !ok {
				return nil, false
			}
			var all []any
			for _, file := range slices.Sorted(maps.Keys(rendered)) {
				decoded, err := renderer.objects(file, rendered[file])
				require.NoError(t, err, file)
				for _, o := range decoded {
					all = append(all, o.Object)
				}
			}
			return all, true
		}
		rendered := 0
		texts(every, "", func(path, text string, set func(string)) {
			defer set(text)
			for scalar, similar := range scalars() {
				set(similar)
				want, ok := objects()
				if !ok {
					continue
				}
				set(scalar)
				got, ok := objects()
				if !ok {
					continue
				}
				rendered++
				if at := changedString(want, got, ""); at != "" {
					t.Errorf("%s: value %s: %q is not a string in %s", name, path, scalar, at)
				}
			}
		})
		require.Greater(t, rendered, 25, name)
	}
}

// changedString returns the path of the first string in want that is not a string in got.
func changedString(want, got any, path string) string {
	switch want := want.(type) {
	case string:
		if _, ok := got.(string); !ok {
			return fmt.Sprintf("%s (%v)", path, got)
		}
	case map[string]any:
		fields, ok := got.(map[string]any)
		if !ok {
			return path
		}
		for key, value := range want {
			if _, ok := fields[key]; !ok {
				continue // the text is part of the key
			}
			if at := changedString(value, fields[key], path+"."+key); at != "" {
				return at
			}
		}
	case []any:
		items, ok := got.([]any)
		if !ok || len(items) != len(want) {
			return path
		}
		for i := range want {
			if at := changedString(want[i], items[i], fmt.Sprintf("%s[%d]", path, i)); at != "" {
				return at
			}
		}
	}
	return ""
}
