package chaos

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestPlannerIsThePublisherThatHoldsTheLease(t *testing.T) {
	for name, c := range map[string]struct {
		leases [2]int // the planner's lease metric in each of the two publishers
		want   string
	}{
		"first publisher":  {[2]int{1, 0}, "0"},
		"second publisher": {[2]int{0, 1}, "1"},
		"no publisher":     {[2]int{0, 0}, ""},
	} {
		s := &stage{shape: Shape{Replicas: 2}, programs: map[string]*program{}}
		for i, held := range c.leases {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, "leader_election_master_status{name=%q} %d\n", lease, held)
				fmt.Fprintf(w, "leader_election_master_status{name=%q} 1\n", lease+"-shard-0")
			}))
			t.Cleanup(server.Close)
			s.programs[fmt.Sprint(i)] = &program{metrics: strings.TrimPrefix(server.URL, "http://")}
		}
		if got := s.planner(t.Context()); got != c.want {
			t.Errorf("%s: got planner %q, want %q", name, got, c.want)
		}
	}
}

func TestRolloutIsInProgressUntilItEndsOrPauses(t *testing.T) {
	for state, want := range map[string]bool{
		"": false, "Paused": false, "Succeeded": false, "Progressing": true, "RollingBack": true,
	} {
		if got := isRollingOut([]ObservedRollout{{State: "Superseded"}, {State: state}}); got != want {
			t.Errorf("state %q: got in progress %t, want %t", state, got, want)
		}
	}
}
