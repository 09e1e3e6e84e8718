package chaos

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestOnlyWantedRemovalsAreApproved(t *testing.T) {
	var held heldRemovals
	if err := json.Unmarshal([]byte(`{"waiting": [
		{"id": "hidden", "module": "scaler", "runtimes": ["sim-0"]}, {"id": "commit", "commit": "c0ffee"},
		{"id": "some deleted", "runtimes": ["extra-1", "sim-0"]}, {"id": "deleted", "runtimes": ["extra-1", "extra-2"]},
		{"id": "requested", "module": "mailer", "runtimes": ["sim-0", "sim-1"]},
		{"id": "optional", "module": "mailer", "runtimes": ["sim-0"]}
	]}`), &held); err != nil {
		t.Fatal(err)
	}
	has := map[string][]string{"sim-0": {scaler}, "sim-1": {scaler, mailer}}
	got := held.wanted(func(id, module string) bool { return slices.Contains(has[id], module) })
	if want := []string{"deleted", "optional"}; !slices.Equal(got, want) {
		t.Errorf("got removals %q, want %q", got, want)
	}
}
