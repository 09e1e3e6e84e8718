package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// checkTokens is a reference implementation of CheckJSON that uses the decoder of encoding/json.
func checkTokens(data []byte, depth int) error {
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

var documents = []string{
	"", " \n", "null", "1 2", "{} {}", "{}x", "[", "{\"a\":1",
	`{"a":1,"a":2}`, `{"a":1,"\\u0061":2}`, `{"a":{"b":1},"b":1}`,
	`{"a":[{"b":1},{"b":1}],"c":"a"}`, `["a","a"]`, `{"a":"a","b":"a"}`, `{"\\"":1,"\\\\":2}`,
	`{"a":"\\",{[:"}`,
	"{\"\xff\":1,\"\xfe\":2}", "{\"\xff\":1,\"\xef\xbf\xbd\":2}",
	`{"\\ud800":1,"\\udbff":2}`, `"x"`, `tru`, "\xef\xbb\xbf{}",
	`{"":1,"":2}`, `{"a":{},"a":[]}`, `[[],[{}],{"a":[{"a":1}]}]`, "{\"a\u2028\":1,\"a\\u2028\":2}",
	`{"a":1,}`, `{"a" 1}`,
	strings.Repeat("[", 8) + strings.Repeat("]", 8), strings.Repeat("[", 9) + strings.Repeat("]", 9),
	manyKeys(40), manyKeys(16),
	manyKeys(17), strings.Replace(manyKeys(40), "key-38", "key-3", 1), strings.Replace(manyKeys(17),
		"key-16", "key-0", 1),
	strings.Replace(manyKeys(18), "key-17", "key-16", 1),
}

func manyKeys(n int) string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"key-%d":{"key-%d":%d}`, i, i, i)
	}
	return "{" + strings.Join(keys, ",") + "}"
}

func compareChecks(t *testing.T, data []byte) {
	t.Helper()
	want, got := checkTokens(data, 8), CheckJSON(data, 8)
	if (want == nil) != (got == nil) {
		t.Errorf("%q: got error %v, want %v", data, got, want)
	}
}

func TestCheckJSONAcceptsTheSameDocumentsAsADecoder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, document := range documents {
		compareChecks(t, []byte(document))
		for range 200 { // change, drop and double bytes
			data := []byte(document)
			for range 1 + random.IntN(3) {
				if len(data) == 0 {
					break
				}
				at := random.IntN(len(data))
				switch random.IntN(3) {
				case 0:
					const bytes = "\"\\{}[],:a0 \xff"
					data[at] = bytes[random.IntN(len(bytes))]
				case 1:
					data = append(data[:at:at], data[at+1:]...)
				default:
					data = append(data[:at:at], data[at/2:]...)
				}
			}
			compareChecks(t, data)
		}
	}
}

func TestCheckJSONNamesTheProblem(t *testing.T) {
	for in, want := range map[string]string{
		" ": "document is empty", "{} {}": "more than one document", `{"a":{"b":1,"b":2}}`: `key "b" appears twice`,
		"[[[]]]": "nested deeper than 2 levels", "{": "unexpected EOF",
	} {
		if err := CheckJSON([]byte(in), 2); err == nil || err.Error() != want {
			t.Errorf("%q: got error %v, want %q", in, err, want)
		}
	}
}

func FuzzCheckJSON(f *testing.F) {
	for _, document := range documents {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, data []byte) { compareChecks(t, data) })
}

func BenchmarkCheckJSON(b *testing.B) {
	data := []byte("[" + strings.Repeat(manyKeys(12)+",", 20) + "1]")
	for name, check := range map[string]func([]byte, int) error{"CheckJSON": CheckJSON, "decoder": checkTokens} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := check(data, 8); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
