package assemble

import (
	"fmt"

	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

// maxValuesBytes bounds one file with values. Agents apply the same limit to all values together.
const maxValuesBytes = 1 << 20

// SetValues adds values to a chart: first the files, where later files take precedence, then assignments in the form of
// Helm's --set.
func (f *Files) SetValues(files, assignments []string) error {
	if len(files)+len(assignments) == 0 {
		return nil
	}
	if f.Type != typeChart {
		return fmt.Errorf("only a chart has values, and the content is of type %s", f.Type)
	}
	values := map[string]any{}
	for _, path := range files {
		next, err := readValues(path)
		if err != nil {
			return err
		}
		values = merged(values, next)
	}
	for _, assignment := range assignments {
		if err := strvals.ParseInto(assignment, values); err != nil {
			return fmt.Errorf("value %q: %w", assignment, err)
		}
	}
	var err error
	f.Values, err = yaml.Marshal(values)
	return err
}

func readValues(path string) (map[string]any, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if len(data) > maxValuesBytes {
		return nil, fmt.Errorf("%s: %d bytes, at most %d", path, len(data), maxValuesBytes)
	}
	if err := strict.YAML(data, strict.Limits{Documents: 1, ExpandedBytes: 4 * maxValuesBytes}); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(data, &values); err != nil {
		return nil, fmt.Errorf("%s: is not a mapping of values: %w", path, err)
	}
	return values, nil
}

// merged returns the values of both maps, and the value of over for common keys. A null in over stays, since it removes
// a chart's default.
func merged(under, over map[string]any) map[string]any {
	result := map[string]any{}
	for key, value := range under {
		result[key] = value
	}
	for key, value := range over {
		below, isMap := result[key].(map[string]any)
		above, alsoMap := value.(map[string]any)
		if isMap && alsoMap {
			value = merged(below, above)
		}
		result[key] = value
	}
	return result
}
