package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	kjson "sigs.k8s.io/json"
)

// MaxJSONDepth bounds the nesting of every JSON document; Kubernetes' deepest schemas stay below 40.
const MaxJSONDepth = 64

// JSON reads exactly one document, nested at most depth levels deep, into v. Unknown fields, fields in another case and duplicate
// keys at any depth are errors, so that no two readers can see two documents in the same bytes; encoding/json alone accepts all
// three.
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

// CheckJSON walks the tokens of one document, bounds its depth and refuses duplicate keys everywhere, also below fields that
// decode into raw messages, which the struct decoder does not look into.
func CheckJSON(data []byte, depth int) error {
	type level struct {
		keys     map[string]bool // nil for an array
		wantsKey bool
	}
	var levels []level
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err == io.EOF && len(levels) == 0 {
			return errors.New("document is empty")
		}
		if err != nil {
			return err
		}
		top := len(levels) - 1
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{', '[':
				if top >= 0 {
					levels[top].wantsKey = true
				}
				if len(levels) == depth {
					return fmt.Errorf("nested deeper than %d levels", depth)
				}
				next := level{}
				if t == '{' {
					next = level{keys: map[string]bool{}, wantsKey: true}
				}
				levels = append(levels, next)
			default:
				levels = levels[:top]
			}
		default:
			if top < 0 {
				break
			}
			if levels[top].keys == nil || !levels[top].wantsKey {
				levels[top].wantsKey = true
				break
			}
			key, _ := token.(string)
			if levels[top].keys[key] {
				return fmt.Errorf("key %q appears twice", key)
			}
			levels[top].keys[key] = true
			levels[top].wantsKey = false
		}
		if len(levels) == 0 {
			break
		}
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("more than one document")
	}
	return nil
}
