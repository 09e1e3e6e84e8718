package rolloutactions_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/rolloutactions"
)

// underWay is a rollout in its second wave of two, the second with approval.
func underWay() *v1alpha1.Rollout {
	return &v1alpha1.Rollout{
		Spec: v1alpha1.RolloutSpec{
			Module: "keda", Channel: "regular", Revision: 1, From: "1.0.0", To: "2.0.0",
			Course: v1alpha1.Course{Waves: []v1alpha1.Wave{{Name: "canaries"}, {Name: "others", Approval: true}}},
		},
		Status: v1alpha1.RolloutStatus{State: v1alpha1.RolloutProgressing},
	}
}

func TestSteeringARollout(t *testing.T) {
	finished := func(state v1alpha1.RolloutState) func(*v1alpha1.Rollout) {
		return func(r *v1alpha1.Rollout) { r.Status.State, r.Status.Message = state, "over" }
	}
	undone := func(others ...v1alpha1.Rollout) rolloutactions.Change {
		return func(r *v1alpha1.Rollout) (string, error) { return rolloutactions.Undo(append(others, *r))(r) }
	}
	retried := func(others ...v1alpha1.Rollout) rolloutactions.Change {
		return func(r *v1alpha1.Rollout) (string, error) { return rolloutactions.Retry(append(others, *r))(r) }
	}
	of := func(module string, revision int64) v1alpha1.Rollout {
		other := *underWay()
		other.Name, other.Spec.Module, other.Spec.Revision = fmt.Sprintf("%s-regular-%d", module, revision), module, revision
		return other
	}
	own := underWay().Spec
	for name, c := range map[string]struct {
		before func(*v1alpha1.Rollout)
		do     rolloutactions.Change
		refuse string
		after  func(v1alpha1.RolloutSpec) bool
	}{
		"pause":                    {nil, rolloutactions.Pause(true), "", func(s v1alpha1.RolloutSpec) bool { return s.Paused }},
		"resume":                   {func(r *v1alpha1.Rollout) { r.Spec.Paused = true }, rolloutactions.Pause(false), "", func(s v1alpha1.RolloutSpec) bool { return !s.Paused }},
		"pause what is over":       {finished(v1alpha1.RolloutSucceeded), rolloutactions.Pause(true), "it is Succeeded already: over", nil},
		"approve":                  {nil, rolloutactions.Approve("others"), "", func(s v1alpha1.RolloutSpec) bool { return len(s.ApprovedWaves) == 1 && s.ApprovedWaves[0] == "others" }},
		"approve twice":            {func(r *v1alpha1.Rollout) { r.Spec.ApprovedWaves = []string{"others"} }, rolloutactions.Approve("others"), "", func(s v1alpha1.RolloutSpec) bool { return len(s.ApprovedWaves) == 1 }},
		"approve what nobody asks": {nil, rolloutactions.Approve("canaries"), `wave "canaries" asks for no approval; those that do: others`, nil},
		"approve what waits all the same": {
			func(r *v1alpha1.Rollout) {
				r.Status.Waves = []v1alpha1.WaveStatus{{Name: "canaries", State: v1alpha1.WaveWaiting}}
			}, rolloutactions.Approve("canaries"), "", func(s v1alpha1.RolloutSpec) bool {
				return len(s.ApprovedWaves) == 1 && s.ApprovedWaves[0] == "canaries"
			},
		},
		"approve what is over":            {finished(v1alpha1.RolloutStopped), rolloutactions.Approve("others"), "it is Stopped already: over", nil},
		"abort":                           {nil, rolloutactions.Abort, "", func(s v1alpha1.RolloutSpec) bool { return s.Abort }},
		"abort what is over":              {finished(v1alpha1.RolloutRolledBack), rolloutactions.Abort, "it is RolledBack already: over", nil},
		"undo":                            {nil, undone(), "", func(s v1alpha1.RolloutSpec) bool { return s.Undo }},
		"undo what succeeded":             {finished(v1alpha1.RolloutSucceeded), undone(of(own.Module, own.Revision-1), of("another", own.Revision+1)), "", func(s v1alpha1.RolloutSpec) bool { return s.Undo }},
		"undo what others came after":     {finished(v1alpha1.RolloutSucceeded), undone(of(own.Module, own.Revision+2), of(own.Module, own.Revision+1)), fmt.Sprintf("rollout %s-regular-%d came after it: undo that", own.Module, own.Revision+2), nil},
		"undo what was superseded":        {finished(v1alpha1.RolloutSuperseded), undone(), "it is Superseded already: over", nil},
		"undo what is rolled back":        {finished(v1alpha1.RolloutRolledBack), undone(), "it is RolledBack already: over", nil},
		"undo what is being rolled back":  {finished(v1alpha1.RolloutRollingBack), undone(), "it is RollingBack already: over", nil},
		"retry what was stopped":          {finished(v1alpha1.RolloutStopped), retried(of("another", own.Revision+1)), "", func(s v1alpha1.RolloutSpec) bool { return s.Retry }},
		"retry what is rolled back":       {finished(v1alpha1.RolloutRolledBack), retried(), "", func(s v1alpha1.RolloutSpec) bool { return s.Retry }},
		"retry what is being rolled back": {finished(v1alpha1.RolloutRollingBack), retried(), "it is RollingBack: only a Stopped or RolledBack rollout can be retried", nil},
		"retry what goes on":              {nil, retried(), "it is Progressing: only a Stopped or RolledBack rollout can be retried", nil},
		"retry what others came after":    {finished(v1alpha1.RolloutRolledBack), retried(of(own.Module, own.Revision+1)), fmt.Sprintf("rollout %s-regular-%d came after it: retry that", own.Module, own.Revision+1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := underWay()
			if c.before != nil {
				c.before(r)
			}
			told, err := c.do(r)
			if c.refuse != "" {
				if err == nil || err.Error() != c.refuse {
					t.Errorf("refused with %v", err)
				}
				return
			}
			if err != nil || told == "" || !c.after(r.Spec) {
				t.Errorf("%q, %v, %+v", told, err, r.Spec)
			}
		})
	}
	if _, err := rolloutactions.Approve("nobody")(underWay()); !errors.Is(err, rolloutactions.ErrNoApproval) {
		t.Errorf("a wave that is not there gives %v", err)
	}
}
