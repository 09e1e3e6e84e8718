package status

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func TestWhyCommandColorsStates(t *testing.T) {
	why := explanation{Runtime: "berlin", State: v1beta2.StateError, Health: fleet.Failing,
		Cause: "module keda is Error: \x1b[31mx", Warnings: []fleet.Cause{{Message: "m", Advice: "a"}},
		Modules: []v1beta2.ModuleStatus{{Name: "keda", State: v1beta2.StateReady}}}
	clitest.CheckColors(t, why.draw, "\x1b[33mwarning\x1b[0m: m; fix: a\n", "runtime berlin is \x1b[31mError\x1b[0m\n",
		"\x1b[32mReady\x1b[0m")
}

func TestWatchFlagPrintsRolloutsAndWarnings(t *testing.T) {
	f := &statusFlags{format: "table"}
	one := func(name string, state v1alpha1.RolloutState, progress string) fleet.Rollout {
		return fleet.Rollout{
			Name: name,
			Status: v1alpha1.RolloutStatus{State: state, Wave: "1/2 canaries", Progress: progress,
				Message: "x\x1b[2Jy"}, Active: true,
		}
	}
	before := fleet.Fleet{Time: noon, Rollouts: []fleet.Rollout{
		one("same", v1alpha1.RolloutProgressing, "1/9"), one("stops", v1alpha1.RolloutProgressing, "1/9"),
	},
		Warnings: []fleet.Cause{
			{Situation: fleet.FleetSilent, Message: "3 of 4 runtimes are silent"}, {
				Situation: fleet.RootExpiresSoon, Message: "the root ends",
			},
		}}
	now := fleet.Fleet{Time: noon.Add(time.Minute), Rollouts: []fleet.Rollout{
		one("same", v1alpha1.RolloutProgressing, "2/9"), one("stops", v1alpha1.RolloutStopped, "1/9"),
		one("begins", "", ""),
	},
		Warnings: []fleet.Cause{
			{Situation: fleet.RootExpiresSoon, Message: "the root ends"}, {
				Situation: fleet.CommitHolds, Message: "a commit is applied",
			},
		}}
	var out bytes.Buffer
	if err := f.printNews(&out, before, now); err != nil {
		t.Fatal(err)
	}
	at := now.Time.Format(time.TimeOnly)
	want := at + "  warning  a commit is applied\n" + at + "  warning resolved  3 of 4 runtimes are silent\n" + at +
		"  rollout stops  Stopped  x\\x1b[2Jy\n" + at + "  rollout begins  New  x\\x1b[2Jy\n"
	if got := out.String(); strings.Contains(got, "\x1b") || strings.Count(got, "\n") != 4 ||
		!strings.HasPrefix(got, want[:strings.Index(want, "x\\")]) {
		t.Errorf("got %q, want lines like %q", got, want)
	}
	for _, quiet := range []*statusFlags{{format: "json"},
		{format: "table", runtimeFilter: runtimeFilter{failing: true}}} {
		out.Reset()
		if err := quiet.printNews(&out, before, now); err != nil || out.Len() > 0 {
			t.Errorf("with JSON or a filter: got %q, %v, want no output", out.String(), err)
		}
	}
}
