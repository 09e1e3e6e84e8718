package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// ErrWrongType means that a field in a built-in kind has a value of the wrong type, such as a string instead of a
// number. Agents do not check the types, so they would send the object to an API server, which always refuses it.
var ErrWrongType = errors.New("no API server accepts this object")

// CheckFieldTypes returns ErrWrongType if a field of the object has a value of a wrong type. It returns nil for custom
// resources and for kinds that this version does not know.
func CheckFieldTypes(object *unstructured.Unstructured) error {
	typed, ok := newTyped(object.GroupVersionKind())
	if !ok {
		return nil
	}
	// API servers convert applied objects with this function, too.
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed)
	if err == nil {
		return nil
	}
	if problem := describeWrongType(object); problem != "" {
		return fmt.Errorf("%s: %s: %w", Name(object), problem, ErrWrongType)
	}
	return fmt.Errorf("%s: %w: %w", Name(object), err, ErrWrongType)
}

// describeWrongType returns the path of the first field with a wrong type, and both types. It returns "" if it cannot
// find the field. It decodes the object with encoding/json, whose errors contain the path, unlike those of
// runtime.DefaultUnstructuredConverter.
func describeWrongType(object *unstructured.Unstructured) string {
	typed, _ := newTyped(object.GroupVersionKind())
	data, err := json.Marshal(object.Object)
	if err != nil {
		return ""
	}
	var wrong *json.UnmarshalTypeError
	if !errors.As(json.Unmarshal(data, typed), &wrong) || wrong.Field == "" {
		return ""
	}
	kind, _, _ := strings.Cut(wrong.Value, " ") // for a number, Value also contains the number, as in "number 80"
	return fmt.Sprintf("field %s must be %s, got %s", wrong.Field, typeName(wrong.Type), kind)
}

// typeName returns the name of a field's type in YAML.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return t.String()
}
