package rollout

import (
	"slices"
	"testing"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestRolloutAwaitsOnlyRelevantReports(t *testing.T) {
	members := []member{
		{state: waiting}, {state: inFlight, isSelected: true}, {state: measuring, isSelected: true},
		{state: waiting, isGranted: true}, {state: updated, isGranted: true, isSelected: true},
		{state: failed, isSelected: true}, {state: reverted, isSelected: true},
	}
	for i := range members {
		members[i].mustReturn = members[i].isSelected
	}
	for state, want := range map[fleet.RolloutState][]bool{
		fleet.RolloutProgressing: {false, true, true, true, false, false, false},
		fleet.RolloutRollingBack: {false, true, true, true, true, true, false},
		fleet.RolloutSucceeded:   make([]bool, len(members)),
	} {
		p := &plan{status: fleet.RolloutStatus{State: state}, members: members}
		if got := p.awaitedReports(make([]Runtime, len(members))); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", state, got, want)
		}
	}
}
