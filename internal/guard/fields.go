package guard

import (
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// listAt returns a list in an object. Like Kubernetes, it treats the value null as a missing field. Charts write null
// for an empty list.
func listAt(o *unstructured.Unstructured, path ...string) ([]any, error) {
	for n := range path {
		value, found, err := unstructured.NestedFieldNoCopy(o.Object, path[:n+1]...)
		if err != nil {
			return nil, err
		}
		if !found || value == nil {
			return nil, nil
		}
	}
	entries, _, err := unstructured.NestedSlice(o.Object, path...)
	return entries, err
}

func stringList(value any) []string {
	entries, _ := value.([]any)
	var all []string
	for _, entry := range entries {
		text, _ := entry.(string)
		all = append(all, text)
	}
	return all
}

// integerAt returns the integer at a field path, 0 if the field is missing, or math.MaxInt32 if it is not an integer.
func integerAt(o *unstructured.Unstructured, path ...string) int64 {
	value, found, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil {
		return math.MaxInt32
	}
	switch v := value.(type) {
	case nil:
		return 0
	case int64:
		return v
	case int:
		return int64(v)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < math.MaxInt32 {
			return int64(v) // YAML such as 1e6, which the API server also accepts
		}
	}
	if found {
		return math.MaxInt32
	}
	return 0
}
