package v1alpha1

import (
	"encoding/json"
	"testing"
)

// If a Go client sent an omitted duration as "0s", the API server would not apply the default, and every rollout would
// fail immediately.
func TestOmittedDurationsAreNotEncoded(t *testing.T) {
	data, err := json.Marshal(Course{Waves: []Wave{{Name: "all"}}})
	if want := `{"waves":[{"name":"all"}]}`; err != nil || string(data) != want {
		t.Errorf("got %s, %v; want %s", data, err, want)
	}
}
