package chaos

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestStepsOnTheSameObjectRunSequentially(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks objectLocks
		var registry, other atomic.Int32
		end := locks.take("registry")
		go func() {
			defer locks.take("registry")()
			registry.Add(1)
		}()
		go func() {
			defer locks.take("replica 0")()
			other.Add(1)
		}()
		time.Sleep(time.Minute)
		if registry.Load() != 0 || other.Load() != 1 {
			t.Errorf("during a step, %d steps on its object and %d on others began, want 0 and 1", registry.Load(),
				other.Load())
		}
		end()
		time.Sleep(time.Minute)
		if registry.Load() != 1 {
			t.Error("the second step did not begin after the first step had ended")
		}
	})
}

func TestFaultsSpareTheOriginalAgentWhileItsCopyRuns(t *testing.T) {
	disturbing := []Kind{
		KillAgent, StopRuntimeAPI, RestoreRuntime, HangWay, ResetWay, SlowWay, ForgetWay, CutRuntime,
	}
	plan := Generate(1, Shape{Real: 1, Replicas: 1, Network: true, Disasters: true}, time.Hour)
	locked := map[string]bool{}
	for _, step := range plan {
		for _, about := range step.lockedObjects() {
			locked[about] = locked[about] || step.Kind == CloneRuntime
		}
	}
	tried := 0
	for _, step := range plan {
		if !slices.Contains(disturbing, step.Kind) || !strings.HasPrefix(step.Target, RealID(0)) {
			continue
		}
		tried++
		if !locked[step.About] {
			t.Errorf("step %q can run while a copy of %s runs", step, RealID(0))
		}
	}
	if tried == 0 {
		t.Error("the plan disturbs no agent")
	}
}
