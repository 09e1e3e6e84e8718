package landscape

import (
	"cmp"
	"fmt"
	"slices"
)

// SortFacts orders recorded objects by kind, namespace and name.
func SortFacts(facts []any) {
	key := func(fact any) string {
		m, _ := fact.(map[string]any)
		return fmt.Sprint(m["kind"], "/", m["namespace"], "/", m["name"])
	}
	slices.SortFunc(facts, func(a, b any) int { return cmp.Compare(key(a), key(b)) })
}
