package assemble

import (
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

// maxValuesBytes limits the size of one values file. Agents limit the total size of all values to the same number.
const maxValuesBytes = 1 << 20

// SetValues sets the values of a chart from files and from assignments like Helm's --set. Later values override earlier
// ones.
func (f *Files) SetValues(files, assignments []string) error {
	if len(files)+len(assignments) == 0 {
		return nil
	}
	if f.Type != typeChart {
		return fmt.Errorf("only a chart has values, but the content has type %s", f.Type)
	}
	values := map[string]any{}
	for _, path := range files {
		next, err := readValues(path)
		if err != nil {
			return err
		}
		values = mergeValues(values, next)
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

// ValueRefs returns the references to runtime values in the chart values and the default CR, sorted. It returns an
// error for a placeholder that agents would refuse.
func (f Files) ValueRefs() ([]bundle.ValueRef, error) {
	var values, defaultCR map[string]any
	if err := yaml.Unmarshal(f.Values, &values); err != nil {
		return nil, fmt.Errorf("chart values: %w", err)
	}
	if err := yaml.Unmarshal(f.DefaultCR, &defaultCR); err != nil {
		return nil, fmt.Errorf("default CR: %w", err)
	}
	ofValues, err := bundle.FindValueRefs(values)
	if err != nil {
		return nil, fmt.Errorf("chart values: %w", err)
	}
	ofDefaultCR, err := bundle.FindValueRefs(defaultCR)
	if err != nil {
		return nil, fmt.Errorf("default CR: %w", err)
	}
	if err := bundle.SampleValues(ofDefaultCR).SubstituteObject(defaultCR); err != nil {
		return nil, fmt.Errorf("default CR: %w", err)
	}
	refs := append(ofValues, ofDefaultCR...)
	slices.Sort(refs)
	return slices.Compact(refs), nil
}

func readValues(path string) (map[string]any, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if len(data) > maxValuesBytes {
		return nil, fmt.Errorf("%s is %d bytes, must be at most %d", path, len(data), maxValuesBytes)
	}
	if err := strict.CheckYAML(data, strict.Limits{Documents: 1, ExpandedBytes: 4 * maxValuesBytes}); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(data, &values); err != nil {
		return nil, fmt.Errorf("%s is not a mapping of values: %w", path, err)
	}
	return values, nil
}

// mergeValues merges two Helm value trees. Values in overrides take precedence. The result keeps null values in
// overrides, because Helm then removes the chart's default value.
func mergeValues(base, overrides map[string]any) map[string]any {
	result := map[string]any{}
	for key, value := range base {
		result[key] = value
	}
	for key, value := range overrides {
		below, isMap := result[key].(map[string]any)
		above, alsoMap := value.(map[string]any)
		if isMap && alsoMap {
			value = mergeValues(below, above)
		}
		result[key] = value
	}
	return result
}
