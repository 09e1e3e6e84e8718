package planning

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// Pointer is a JSON pointer, split into its parts.
type Pointer []string

func (p Pointer) String() string { return "/" + strings.Join(p, "/") }

const maxIgnoredFields = 50

// IgnoredFields returns the fields in an object's annotation ignore-fields, which the agent sets only on creation.
// The annotation contains JSON pointers, as a JSON array or separated by commas or whitespace.
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
				fmt.Errorf("%s: annotation %s: %s identifies the object and its owner: remove it from the list",
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

// TakeLive sets a field of an object to its live value. If another field manager owns the field, TakeLive removes the
// field instead, so that the apply does not overwrite concurrent changes.
func TakeLive(o, live *unstructured.Unstructured, p Pointer, manager string) {
	value, found := at(live.Object, p)
	if !found || isOwnedByOther(live.GetManagedFields(), p, manager) {
		set(o.Object, p, nil, false)
		return
	}
	set(o.Object, p, value, true)
}

// isOwnedByOther reports whether another field manager owns the field at a pointer. It returns false for pointers into
// lists.
func isOwnedByOther(entries []metav1.ManagedFieldsEntry, p Pointer, manager string) bool {
	for _, e := range entries {
		if e.FieldsV1 == nil ||
			e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		path := make([]string, len(p))
		for n, part := range p {
			path[n] = "f:" + part
		}
		if _, found, err := unstructured.NestedFieldNoCopy(fields, path...); found && err == nil {
			return true
		}
	}
	return false
}

func at(value any, p Pointer) (any, bool) {
	for _, part := range p {
		switch v := value.(type) {
		case map[string]any:
			next, ok := v[part]
			if !ok {
				return nil, false
			}
			value = next
		case []any:
			n, err := strconv.Atoi(part)
			if err != nil || n < 0 || n >= len(v) {
				return nil, false
			}
			value = v[n]
		default:
			return nil, false
		}
	}
	return value, true
}

// set sets or removes the field at a pointer. It creates missing maps, but no list items.
func set(object map[string]any, p Pointer, value any, present bool) {
	last := p[len(p)-1]
	for n, part := range p[:len(p)-1] {
		next, found := at(object, Pointer{part})
		if !found && present {
			next = map[string]any{}
			object[part] = next
		}
		switch v := next.(type) {
		case map[string]any:
			object = v
		case []any:
			index, err := strconv.Atoi(p[n+1])
			if err != nil || index < 0 || index >= len(v) {
				return
			}
			if n+1 == len(p)-1 {
				if present {
					v[index] = value
				}
				return
			}
			item, ok := v[index].(map[string]any)
			if !ok {
				return
			}
			set(item, p[n+2:], value, present)
			return
		default:
			return
		}
	}
	if present {
		object[last] = value
	} else {
		delete(object, last)
	}
}
