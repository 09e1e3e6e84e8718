package planning

import (
	"encoding/json"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/internal/content"
)

// TakeLive sets a field of an object to its live value. If another field manager owns the field, TakeLive removes the
// field instead, so that the apply does not overwrite concurrent changes.
func TakeLive(o, live *unstructured.Unstructured, p content.Pointer, manager string) {
	value, found := at(live.Object, p)
	if !found || isOwnedByOther(live.GetManagedFields(), p, manager) {
		set(o.Object, p, nil, false)
		return
	}
	set(o.Object, p, value, true)
}

// isOwnedByOther reports whether another field manager owns the field at a pointer. It returns false for pointers into
// lists.
func isOwnedByOther(entries []metav1.ManagedFieldsEntry, p content.Pointer, manager string) bool {
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

func at(value any, p content.Pointer) (any, bool) {
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
func set(object map[string]any, p content.Pointer, value any, present bool) {
	last := p[len(p)-1]
	for n, part := range p[:len(p)-1] {
		next, found := at(object, content.Pointer{part})
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
