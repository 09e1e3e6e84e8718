package v1alpha1

import (
	"encoding/json"
	"testing"
)

// A Go client that omits a duration must not send "0s". Otherwise the API server would skip its default, and every
// rollout would fail at once.
func TestOmittedDurationsAreNotSent(t *testing.T) {
	data, err := json.Marshal(Course{Waves: []Wave{{Name: "all"}}})
	if want := `{"waves":[{"name":"all"}]}`; err != nil || string(data) != want {
		t.Errorf("got %s, %v; want %s", data, err, want)
	}
}
