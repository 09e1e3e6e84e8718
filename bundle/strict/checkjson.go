package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// CheckJSON returns an error if the document is nested deeper than depth or has duplicate keys.
func CheckJSON(data []byte, depth int) error {
	if !json.Valid(data) {
		return invalidError(data)
	}
	// The document is valid, so only strings and brackets matter for its structure.
	var o openValues
	for at := 0; at < len(data); at++ {
		switch c := data[at]; c {
		case '{', '[':
			if len(o.levels) == depth {
				return fmt.Errorf("nested deeper than %d levels", depth)
			}
			o.open(c == '{')
		case '}', ']':
			o.close()
		case ',':
			o.awaitKey()
		case '"':
			end := stringEnd(data, at)
			if err := o.addString(data[at:end]); err != nil {
				return err
			}
			at = end - 1
		}
	}
	return nil
}

// invalidError returns the reason why data is not one JSON document.
func invalidError(data []byte) error {
	if len(bytes.TrimLeft(data, " \t\r\n")) == 0 {
		return errors.New("document is empty")
	}
	var first json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&first); err != nil {
		return err
	}
	return errors.New("more than one document")
}

// stringEnd returns the index after the string that starts at the given index in a valid document.
func stringEnd(data []byte, start int) int {
	for at := start + 1; ; at++ {
		switch data[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
}

// openValues contains the objects and arrays around the current position in a document.
type openValues struct {
	levels []openValue
	keys   [][]byte // the keys of all open objects, innermost last
}

type openValue struct {
	isObject, wantsKey bool
	firstKey           int             // index in openValues.keys
	known              map[string]bool // the keys of a large object, otherwise nil
}

// fewKeys is the maximum number of keys for a search through a list. For more keys, a map is faster.
const fewKeys = 16

func (o *openValues) open(isObject bool) {
	o.levels = append(o.levels, openValue{isObject: isObject, wantsKey: isObject, firstKey: len(o.keys)})
}

func (o *openValues) close() {
	top := len(o.levels) - 1
	o.keys, o.levels = o.keys[:o.levels[top].firstKey], o.levels[:top]
}

// awaitKey marks the next string in an object as a key.
func (o *openValues) awaitKey() {
	top := &o.levels[len(o.levels)-1]
	top.wantsKey = top.isObject
}

// addString adds a string from the document, with its quotes. If the string is a key, addString returns an error if the
// object already has the key.
func (o *openValues) addString(quoted []byte) error {
	if len(o.levels) == 0 {
		return nil
	}
	top := &o.levels[len(o.levels)-1]
	if !top.wantsKey {
		return nil
	}
	top.wantsKey = false
	key, err := decodeKey(quoted)
	if err != nil {
		return err
	}
	siblings := o.keys[top.firstKey:]
	isDuplicate := top.known[string(key)]
	if top.known == nil {
		isDuplicate = slices.ContainsFunc(siblings, func(other []byte) bool { return bytes.Equal(other, key) })
	}
	if isDuplicate {
		return fmt.Errorf("key %q appears twice", key)
	}
	o.keys = append(o.keys, key)
	if top.known != nil {
		top.known[string(key)] = true
	} else if len(siblings) == fewKeys {
		top.known = map[string]bool{}
		for _, k := range o.keys[top.firstKey:] {
			top.known[string(k)] = true
		}
	}
	return nil
}

// decodeKey decodes a quoted key. Package encoding/json replaces invalid UTF-8, so different bytes can be equal keys.
func decodeKey(quoted []byte) ([]byte, error) {
	if !slices.ContainsFunc(quoted, func(c byte) bool { return c == '\\' || c >= 0x80 }) {
		return quoted[1 : len(quoted)-1], nil
	}
	var key string
	err := json.Unmarshal(quoted, &key)
	return []byte(key), err
}
