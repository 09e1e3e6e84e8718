package readiness

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// withStandardStatus returns a copy of an object with a reduced status. The status contains only the fields that
// kstatus reads, without values whose type kstatus does not expect. Boolean condition statuses become text.
//
// Source: kstatus: cli-utils pkg/kstatus/status, GetObjectWithConditions.
func withStandardStatus(o *unstructured.Unstructured) *unstructured.Unstructured {
	standard := map[string]any{}
	if n, found, err := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); found && err == nil {
		standard["observedGeneration"] = n
	}
	given, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	var conditions []any
	for _, one := range given {
		fields, _ := one.(map[string]any)
		condition := map[string]any{}
		for _, name := range []string{"type", "status", "reason", "message"} {
			switch value := fields[name].(type) {
			case string:
				condition[name] = value
			case bool:
				condition[name] = map[bool]string{true: "True", false: "False"}[value]
			}
		}
		if condition["type"] != nil && condition["status"] != nil {
			conditions = append(conditions, condition)
		}
	}
	standard["conditions"] = conditions
	o = o.DeepCopy()
	o.Object["status"] = standard
	return o
}
