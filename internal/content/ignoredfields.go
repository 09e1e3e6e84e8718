package content

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// Pointer is a JSON pointer, split into its parts.
type Pointer []string

const maxIgnoredFields = 50

// IgnoredFields returns the fields that an object's ignore-fields annotation lists. The agent sets these fields only
// when it creates the object. The annotation contains JSON pointers, as a JSON array or separated by commas or
// whitespace.
//
// Source: RFC 6901.
func IgnoredFields(o *unstructured.Unstructured) ([]Pointer, error) {
	text := strings.TrimSpace(o.GetAnnotations()[v1beta2.AnnotationIgnoreFields])
	if text == "" {
		return nil, nil
	}
	var all []string
	if strings.HasPrefix(text, "[") {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			return nil,
				fmt.Errorf("%s: annotation %s is not a JSON array of pointers: %w", guard.KeyOf(o),
					v1beta2.AnnotationIgnoreFields, err)
		}
	} else {
		all = strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
	}
	if len(all) > maxIgnoredFields {
		return nil,
			fmt.Errorf("%s: annotation %s has %d pointers: use at most %d", guard.KeyOf(o),
				v1beta2.AnnotationIgnoreFields, len(all), maxIgnoredFields)
	}
	pointers := make([]Pointer, len(all))
	for n, text := range all {
		parts := strings.Split(text, "/")
		if parts[0] != "" || len(parts) < 2 || slices.Contains(parts[1:], "") {
			return nil,
				fmt.Errorf("%s: annotation %s: %q is not a JSON pointer such as /spec/replicas", guard.KeyOf(o),
					v1beta2.AnnotationIgnoreFields, text)
		}
		for i, part := range parts {
			parts[i] = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		}
		if pointers[n] = parts[1:]; isIdentity(pointers[n]) {
			return nil,
				fmt.Errorf("%s: annotation %s: must not contain %s, which identifies the object or its owner",
					guard.KeyOf(o), v1beta2.AnnotationIgnoreFields, text)
		}
	}
	return pointers, nil
}

// isIdentity reports whether a pointer refers to fields that identify an object.
func isIdentity(p Pointer) bool {
	switch {
	case p[0] == "apiVersion" || p[0] == "kind" || len(p) == 1 && p[0] == "metadata":
		return true
	case p[0] != "metadata":
		return false
	case p[1] != "labels" && p[1] != "annotations":
		return true
	}
	return len(p) == 2 ||
		slices.Contains(
			[]string{
				v1beta2.LabelManagedBy, v1beta2.LabelModuleName, v1beta2.AnnotationOwnedBy,
				v1beta2.AnnotationIgnoreFields,
			},
			p[2],
		)
}
