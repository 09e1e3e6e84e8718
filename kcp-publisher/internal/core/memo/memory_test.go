package memo

import "testing"

func TestEstimatedMemoryIncludesNestedValues(t *testing.T) {
	type item struct {
		Name  string
		Inner *[]string
	}
	list := []string{text(100), text(200)}
	for name, c := range map[string]struct {
		value       any
		least, most int
	}{
		"string":           {text(1000), 1000, 1000},
		"bytes":            {make([]byte, 1000), 1000, 1000},
		"empty items":      {make([]item, 100), 2400, 2400},
		"behind a pointer": {item{Inner: &list}, 300, 400},
		"behind any":       {map[string]any{"a": map[string]any{"b": []any{text(500)}}}, 500, 800},
		"nil":              {nil, 0, 0},
	} {
		if got := MemoryOf(c.value); got < c.least || got > c.most {
			t.Errorf("%s: got %d bytes, want %d to %d", name, got, c.least, c.most)
		}
	}
}
