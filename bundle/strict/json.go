package strict

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	kjson "sigs.k8s.io/json"
)

// MaxJSONDepth limits the nesting of every JSON document.
const MaxJSONDepth = 64

// JSON decodes exactly one document into v. It returns an error for unknown fields, field names with different
// capitalization, duplicate keys, and nesting deeper than depth. Otherwise, two readers could decode the same bytes
// differently.
func JSON(data []byte, v any, depth int) error {
	if err := CheckJSON(data, depth); err != nil {
		return err
	}
	problems, err := kjson.UnmarshalStrict(data, v)
	if err != nil {
		return err
	}
	return errors.Join(problems...)
}

// ExtendedJSON is like JSON, but ignores fields that v does not have. Use it only for data whose signature or digest
// was verified.
func ExtendedJSON(data []byte, v any, depth int) error {
	if err := CheckJSON(data, depth); err != nil {
		return err
	}
	problems, err := kjson.UnmarshalStrict(data, v)
	if err != nil || len(problems) == 0 {
		return err
	}
	// CheckJSON has already refused duplicate keys, so all strict errors are unknown fields. Accept an unknown field,
	// unless its name differs from a known field only in case.
	var document any
	if err := json.Unmarshal(data, &document); err != nil {
		return err
	}
	return checkCase(document, reflect.TypeOf(v))
}

// checkCase returns an error for a key that differs from a field of t only in case. Package encoding/json would decode
// this key into the field.
func checkCase(document any, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	switch object := document.(type) {
	case []any:
		if t.Kind() != reflect.Slice && t.Kind() != reflect.Array {
			return nil
		}
		for _, item := range object {
			if err := checkCase(item, t.Elem()); err != nil {
				return err
			}
		}
	case map[string]any:
		return checkKeys(object, t)
	}
	return nil
}

func checkKeys(object map[string]any, t reflect.Type) error {
	switch t.Kind() {
	case reflect.Map:
		for _, value := range object {
			if err := checkCase(value, t.Elem()); err != nil {
				return err
			}
		}
	case reflect.Struct:
		known := jsonFields(t)
		for key, value := range object {
			if field, is := known[key]; is {
				if err := checkCase(value, field); err != nil {
					return err
				}
				continue
			}
			for name := range known {
				if strings.EqualFold(name, key) {
					return fmt.Errorf("field %q differs from %q only in case", key, name)
				}
			}
		}
	}
	return nil
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			maps.Copy(fields, jsonFields(f.Type))
		case f.IsExported() && name != "-":
			fields[cmp.Or(name, f.Name)] = f.Type
		}
	}
	return fields
}
