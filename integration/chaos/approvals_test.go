package chaos

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestOnlyRemovalsOfDeletedKymasAreApproved(t *testing.T) {
	var held heldRemovals
	if err := json.Unmarshal([]byte(`{"waiting": [
		{"id": "hidden", "runtimes": ["extra-1", "sim-0"]}, {"id": "deleted", "runtimes": ["extra-1", "extra-2"]}
	]}`), &held); err != nil {
		t.Fatal(err)
	}
	deleted := []string{"extra-1", "extra-2"}
	if got := held.deletions(func(id string) bool { return slices.Contains(deleted, id) }); !slices.Equal(got,
		[]string{"deleted"}) {
		t.Errorf("got removals %q, want those of deleted Kymas", got)
	}
}
