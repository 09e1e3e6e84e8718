package actions_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
)

func underWay() *v1alpha1.Rollout {
	return &v1alpha1.Rollout{
		Spec: v1alpha1.RolloutSpec{
			Module: "keda", Channel: "regular", Revision: 1, From: "1.0.0", To: "2.0.0",
			Course: v1alpha1.Course{Waves: []v1alpha1.Wave{{Name: "canaries"}, {Name: "others", Approval: true}}},
		},
		Status: v1alpha1.RolloutStatus{State: v1alpha1.RolloutProgressing},
	}
}

func waitsForDeferred(approved []string) func(*v1alpha1.Rollout) {
	return func(r *v1alpha1.Rollout) {
		r.Spec.ApprovedWaves = approved
		r.Status.State = v1alpha1.RolloutWaiting
		r.Status.Waves = []v1alpha1.WaveStatus{
			{Name: "canaries", State: v1alpha1.WaveWaiting, WaitsForDeferred: true, Deferred: 3},
		}
	}
}

func TestRolloutActionsDependOnState(t *testing.T) {
	finished := func(state v1alpha1.RolloutState) func(*v1alpha1.Rollout) {
		return func(r *v1alpha1.Rollout) { r.Status.State, r.Status.Message = state, "over" }
	}
	undone := func(others ...v1alpha1.Rollout) actions.Rollout {
		return actions.Rollout{
			Reason: "Undone",
			Change: func(r *v1alpha1.Rollout) (string, error) { return actions.Undo(append(others, *r)).Change(r) },
		}
	}
	retried := func(others ...v1alpha1.Rollout) actions.Rollout {
		return actions.Rollout{
			Reason: "Retried",
			Change: func(r *v1alpha1.Rollout) (string, error) { return actions.Retry(append(others, *r)).Change(r) },
		}
	}
	of := func(module string, revision int64) v1alpha1.Rollout {
		other := *underWay()
		other.Name, other.Spec.Module, other.Spec.Revision = fmt.Sprintf("%s-regular-%d", module, revision), module,
			revision
		return other
	}
	own := underWay().Spec
	for name, c := range map[string]struct {
		before func(*v1alpha1.Rollout)
		do     actions.Rollout
		refuse string
		after  func(v1alpha1.RolloutSpec) bool
	}{
		"pause": {
			nil,
			actions.Pause(true),
			"",
			func(s v1alpha1.RolloutSpec) bool { return s.Paused },
		},
		"resume": {
			func(r *v1alpha1.Rollout) { r.Spec.Paused = true },
			actions.Pause(false),
			"",
			func(s v1alpha1.RolloutSpec) bool { return !s.Paused },
		},
		"pause a finished rollout": {
			finished(v1alpha1.RolloutSucceeded),
			actions.Pause(true),
			"the rollout is already Succeeded: over",
			nil,
		},
		"approve": {
			nil,
			actions.Approve("others"),
			"",
			func(s v1alpha1.RolloutSpec) bool { return len(s.ApprovedWaves) == 1 && s.ApprovedWaves[0] == "others" },
		},
		"approve twice": {
			func(r *v1alpha1.Rollout) { r.Spec.ApprovedWaves = []string{"others"} },
			actions.Approve("others"),
			"",
			func(s v1alpha1.RolloutSpec) bool { return len(s.ApprovedWaves) == 1 },
		},
		"approve a wave that does not require approval": {
			nil,
			actions.Approve("canaries"),
			`wave "canaries" does not wait for approval; waves that wait: others`,
			nil,
		},
		"approve a wave that is waiting according to its status": {
			func(r *v1alpha1.Rollout) {
				r.Status.Waves = []v1alpha1.WaveStatus{{Name: "canaries", State: v1alpha1.WaveWaiting}}
			}, actions.Approve("canaries"), "", func(s v1alpha1.RolloutSpec) bool {
				return len(s.ApprovedWaves) == 1 && s.ApprovedWaves[0] == "canaries"
			},
		},
		"approve a wave that waits for deferred runtimes": {
			waitsForDeferred(nil), actions.Approve("canaries"), "", func(s v1alpha1.RolloutSpec) bool {
				return len(s.ApprovedWaves) == 0 && slices.Equal(s.ApprovedDeferredWaves, []string{"canaries"})
			},
		},
		"approve an approved wave that waits for deferred runtimes": {
			waitsForDeferred([]string{"canaries"}), actions.Approve("canaries"), "", func(s v1alpha1.RolloutSpec) bool {
				return len(s.ApprovedWaves) == 1 && slices.Equal(s.ApprovedDeferredWaves, []string{"canaries"})
			},
		},
		"approve deferred runtimes twice": {
			func(r *v1alpha1.Rollout) {
				waitsForDeferred(nil)(r)
				r.Spec.ApprovedDeferredWaves = []string{"canaries"}
			}, actions.Approve("canaries"), "", func(s v1alpha1.RolloutSpec) bool {
				return len(s.ApprovedWaves) == 0 && len(s.ApprovedDeferredWaves) == 1
			},
		},
		"approve in a finished rollout": {
			finished(v1alpha1.RolloutStopped),
			actions.Approve("others"),
			"the rollout is already Stopped: over",
			nil,
		},
		"abort": {
			nil,
			actions.Abort(),
			"",
			func(s v1alpha1.RolloutSpec) bool { return s.Abort },
		},
		"abort a finished rollout": {
			finished(v1alpha1.RolloutRolledBack),
			actions.Abort(),
			"the rollout is already RolledBack: over",
			nil,
		},
		"undo": {nil, undone(), "", func(s v1alpha1.RolloutSpec) bool { return s.Undo }},
		"undo a successful rollout": {
			finished(v1alpha1.RolloutSucceeded),
			undone(of(own.Module, own.Revision-1), of("another", own.Revision+1)),
			"",
			func(s v1alpha1.RolloutSpec) bool { return s.Undo },
		},
		"undo a rollout although a newer rollout exists": {
			finished(v1alpha1.RolloutSucceeded),
			undone(of(own.Module, own.Revision+2), of(own.Module, own.Revision+1)),
			fmt.Sprintf("rollout %s-regular-%d is newer: undo that rollout instead", own.Module, own.Revision+2),
			nil,
		},
		"undo a superseded rollout": {
			finished(v1alpha1.RolloutSuperseded),
			undone(),
			"the rollout is already Superseded: over",
			nil,
		},
		"undo a rollout that rolled back": {
			finished(v1alpha1.RolloutRolledBack),
			undone(),
			"the rollout is already RolledBack: over",
			nil,
		},
		"undo a rollout that is rolling back": {
			finished(v1alpha1.RolloutRollingBack),
			undone(),
			"the rollout is already RollingBack: over",
			nil,
		},
		"retry a stopped rollout": {
			finished(v1alpha1.RolloutStopped),
			retried(of("another", own.Revision+1)),
			"",
			func(s v1alpha1.RolloutSpec) bool { return s.Retry },
		},
		"retry a rollout that rolled back": {
			finished(v1alpha1.RolloutRolledBack),
			retried(),
			"",
			func(s v1alpha1.RolloutSpec) bool { return s.Retry },
		},
		"retry a rollout that is rolling back": {
			finished(v1alpha1.RolloutRollingBack),
			retried(),
			"the rollout is RollingBack: only Stopped and RolledBack rollouts can be retried",
			nil,
		},
		"retry a rollout although a newer rollout exists": {
			finished(v1alpha1.RolloutRolledBack),
			retried(of(own.Module, own.Revision+1)),
			fmt.Sprintf("rollout %s-regular-%d is newer: retry that rollout instead", own.Module, own.Revision+1),
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := underWay()
			if c.before != nil {
				c.before(r)
			}
			effect, err := c.do.Change(r)
			if c.refuse != "" {
				if err == nil || err.Error() != c.refuse {
					t.Errorf("got error %v, want %q", err, c.refuse)
				}
				return
			}
			if err != nil || effect == "" || !c.after(r.Spec) {
				t.Errorf("got effect %q, error %v, spec %+v", effect, err, r.Spec)
			}
		})
	}
	if _, err := actions.Approve("unknown").Change(underWay()); !errors.Is(err, actions.ErrNoApproval) {
		t.Errorf("unknown wave: got %v, want ErrNoApproval", err)
	}
}
