package memo

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Encode returns a value as JSON. Caches use the result as a key, or to measure the size of an entry. The value must
// consist of plain data.
func Encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("plain data always encodes: %v", err))
	}
	return text
}

// MemoryOf returns the approximate size in bytes of a value and of all data that it references. It can be ten times the
// size of the value's JSON, which omits empty fields. The value must not reference itself.
func MemoryOf(value any) int { return memoryOf(reflect.ValueOf(value)) }

func memoryOf(value reflect.Value) (bytes int) {
	switch value.Kind() {
	case reflect.String:
		return value.Len()
	case reflect.Pointer:
		if !value.IsNil() {
			return int(value.Type().Elem().Size()) + memoryOf(value.Elem())
		}
	case reflect.Interface:
		if !value.IsNil() {
			return int(value.Elem().Type().Size()) + memoryOf(value.Elem())
		}
	case reflect.Slice:
		bytes = value.Cap() * int(value.Type().Elem().Size())
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return bytes
		}
		for i := range value.Len() {
			bytes += memoryOf(value.Index(i))
		}
	case reflect.Map:
		each := int(value.Type().Key().Size() + value.Type().Elem().Size())
		for entry := value.MapRange(); entry.Next(); {
			bytes += 2*each + memoryOf(entry.Key()) + memoryOf(entry.Value())
		}
	case reflect.Struct:
		if value.Type() == reflect.TypeFor[time.Time]() {
			return 0 // all times share the same Location
		}
		for i := range value.NumField() {
			bytes += memoryOf(value.Field(i))
		}
	}
	return bytes
}
