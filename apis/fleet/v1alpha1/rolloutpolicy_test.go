package v1alpha1

import (
	"encoding/json"
	"testing"
)

// A client in Go that leaves a duration out must not send "0s": the API server's default would not apply, and every
// rollout fail at once.
func TestDurationsThatAreLeftOutAreNotSent(t *testing.T) {
	data, err := json.Marshal(Course{Waves: []Wave{{Name: "all"}}})
	if want := `{"waves":[{"name":"all"}]}`; err != nil || string(data) != want {
		t.Errorf("sends %s, %v; want %s", data, err, want)
	}
}
