package train

import (
	"reflect"
	"slices"
	"testing"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// While the module's ModuleReleaseMeta is missing, a rollout is rolled back and deleted.
func TestRollbackIsRecordedWithoutAModuleReleaseMeta(t *testing.T) {
	in := due()
	metas := in.Metas
	in.Metas = nil
	in.Rollouts = []fleet.Rollout{rolloutOf("regular", "1.8.0", 1, fleet.RolloutRolledBack, ago(time.Hour))}
	in.Policies[0].Status = Plan(in)[0].Status
	in.Metas, in.Rollouts = metas, nil
	out := Plan(in)[0]
	rejected := out.Status.Modules[0].Rejected
	if len(out.Due) > 0 || len(rejected) != 1 || rejected[0].Version != "1.8.0" {
		t.Errorf("got due promotions %+v and rejected versions %+v, want none and 1.8.0", out.Due, rejected)
	}
}

// A channel was set back to an older version. The policy's status must keep the rejected version while the
// ModuleReleaseMeta is missing or ambiguous.
func TestInterruptedEvaluationKeepsRejectedVersions(t *testing.T) {
	duplicate := func(in *Input) {
		other := metaOf("9.9.9", "", "")
		other.Name = "another"
		in.Metas = append(in.Metas, other)
	}
	for name, c := range map[string]struct {
		interrupt func(*Input)
		// recorded is true if the policy's status lists the version as rejected before the evaluation.
		recorded bool
	}{
		"evaluation without an interruption":                      {func(*Input) {}, false},
		"module with a second ModuleReleaseMeta":                  {duplicate, false},
		"rejected module version with a second ModuleReleaseMeta": {duplicate, true},
		"module without a ModuleReleaseMeta":                      {func(in *Input) { in.Metas = nil }, false},
		"module without a ModuleReleaseMeta, policy selects all modules": {
			func(in *Input) { in.Metas, in.Policies[0].Spec.Modules = nil, nil }, false,
		},
		"rejected module version without a ModuleReleaseMeta, policy selects all modules": {
			func(in *Input) { in.Metas, in.Policies[0].Spec.Modules = nil, nil }, true,
		},
		"policy selects another module while a channel is set back": {
			func(in *Input) { in.Policies[0].Spec.Modules = []string{"other"} }, false,
		},
		"policy selects another module": {
			func(in *Input) { in.Policies[0].Spec.Modules = []string{"other"} }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := due()
			modules := in.Policies[0].Spec.Modules
			in.Rollouts = []fleet.Rollout{rolloutOf("fast", "1.8.0", 1, fleet.RolloutSucceeded, ago(8*24*time.Hour))}
			back := metaOf("1.8.0", "1.8.0", "1.7.0")
			before := &in.Policies[0].Status.Modules[0]
			if c.recorded {
				in.Metas = []v1beta2.ModuleReleaseMeta{back}
				before.Rejected = []fleet.RejectedVersion{{Version: "1.8.0", Channel: "regular", Message: "set back"}}
			} else {
				before.Versions[2] = fleet.TrainVersion{Channel: "regular", Version: "1.8.0", Since: ago(week)}
				in.Metas = []v1beta2.ModuleReleaseMeta{metaOf("1.8.0", "1.8.0", "1.8.0")}
			}
			in.Fleet = ready(back, 5)
			c.interrupt(&in)
			in.Policies[0].Status = Plan(in)[0].Status
			in.Metas, in.Policies[0].Spec.Modules = []v1beta2.ModuleReleaseMeta{back}, modules
			out := Plan(in)[0]
			if len(out.Due) > 0 || len(out.Status.Modules) != 1 || len(out.Status.Modules[0].Rejected) != 1 {
				t.Errorf("got due promotions %+v and modules %+v, want none and one rejected version", out.Due,
					out.Status.Modules)
			}
		})
	}
}

// An operator removes the entry of a channel, and adds it later with an older version.
func TestRemovedChannelKeepsItsLastVersion(t *testing.T) {
	in := due()
	in.Policies[0].Status.Modules[0].Versions[2].Version = "1.8.0"
	for range 2 {
		in.Metas[0] = metaOf("1.8.0", "1.8.0", "")
		out := Plan(in)[0]
		want := []fleet.RemovedVersion{{Channel: "regular", Version: "1.8.0"}}
		if got := out.Status.Modules[0]; !slices.Equal(got.Removed, want) || len(got.Versions) != 2 {
			t.Fatalf("without the channel: got status %+v, want removed versions %v", got, want)
		}
		in.Policies[0].Status = out.Status
	}
	in.Metas[0] = metaOf("1.8.0", "1.8.0", "1.7.0")
	out := Plan(in)[0]
	if got := entry(t, out, "fast"); got.Reason != fleet.WaitRejected || len(out.Due) > 0 {
		t.Errorf("with an older version: got due promotions %+v and entry %+v, want Rejected", out.Due, got)
	}
	in.Metas[0] = metaOf("1.8.0", "1.8.0", "1.8.0")
	if got := Plan(in)[0].Status.Modules[0]; len(got.Rejected)+len(got.Removed) > 0 {
		t.Errorf("with the same version: got status %+v, want no rejected and no removed version", got)
	}
}

// The version's rollout succeeded long ago. While the module or the channel is missing, its pauses are not recorded.
func TestReturningChannelStartsItsWaitingTimeAgain(t *testing.T) {
	for name, c := range map[string]struct{ remove, restore func(*Input) }{
		"deleted and recreated ModuleReleaseMeta, policy for all modules": {
			func(in *Input) { in.Metas, in.Policies[0].Spec.Modules = nil, nil },
			func(in *Input) { in.Metas = due().Metas },
		},
		"module leaves and rejoins the policy": {
			func(in *Input) { in.Policies[0].Spec.Modules = []string{"other"} },
			func(in *Input) { in.Policies[0].Spec.Modules = []string{module} },
		},
		"removed and restored channel": {
			func(in *Input) { in.Metas[0] = metaOf("1.8.0", "", "1.7.0") },
			func(in *Input) { in.Metas = due().Metas },
		},
	} {
		in := due()
		in.Rollouts = []fleet.Rollout{
			rolloutOf("fast", "1.8.0", 1, fleet.RolloutSucceeded, ago(8*24*time.Hour)),
		}
		c.remove(&in)
		in.Policies[0].Status = Plan(in)[0].Status
		c.restore(&in)
		out := Plan(in)[0]
		if got := entry(t, out, "fast"); got.Reason != fleet.WaitTimeNotReached || !got.Since.Time.Equal(monday) ||
			len(out.Due) > 0 {
			t.Errorf("%s: got due promotions %+v and entry %+v, want a waiting time from now", name, out.Due, got)
		}
	}
}

func TestWaitingTimePausesWithoutAModuleReleaseMeta(t *testing.T) {
	for name, remove := range map[string]func(*Input){
		"deleted ModuleReleaseMeta": func(in *Input) { in.Metas = nil },
		"second ModuleReleaseMeta":  func(in *Input) { in.Metas = append(in.Metas, in.Metas[0]) },
	} {
		in := due()
		in.Policies[0].Status.Modules[0].Versions[1].Since = ago(24 * time.Hour)
		in.Policies[0].Status = Plan(in)[0].Status
		remove(&in)
		in.Policies[0].Status = Plan(in)[0].Status
		in.Now, in.Metas = monday.Add(7*24*time.Hour), due().Metas
		out := Plan(in)[0]
		if got := entry(t, out, "fast"); got.Reason != fleet.WaitTimeNotReached || len(out.Due) > 0 ||
			got.ReadySince == nil || !got.ReadySince.Time.Equal(monday.Add(6*24*time.Hour)) {
			t.Errorf("%s: got due promotions %+v and entry %+v, want a pause of seven days", name, out.Due, got)
		}
	}
}

func TestReportsWithoutANewReasonDoNotChangeTheStatus(t *testing.T) {
	in := due()
	in.Policies[0].Status.Modules[0].Versions[1].Since = ago(time.Hour)
	in.Policies[0].Status = Plan(in)[0].Status
	if got := entry(t, Plan(in)[0], "fast"); got.Reason != fleet.WaitTimeNotReached || got.Ready != 5 {
		t.Fatalf("got entry %+v, want 5 ready runtimes", got)
	}
	for minute := range 60 {
		in.Now = monday.Add(time.Duration(minute) * time.Minute)
		in.Fleet[inFast] = Counts{Version: "1.8.0", Ready: 4 + int32(minute%2)}
		if after := Plan(in)[0]; !reflect.DeepEqual(after.Status, in.Policies[0].Status) {
			t.Fatalf("minute %d: got status %+v, want %+v", minute, after.Status, in.Policies[0].Status)
		}
	}
	in.Fleet[inFast] = Counts{Version: "1.8.0", Ready: 2}
	if got := entry(t, Plan(in)[0], "fast"); got.Reason != fleet.WaitTooFewRuntimes || got.Ready != 2 {
		t.Errorf("got entry %+v, want TooFewRuntimes with 2 ready runtimes", got)
	}
}
