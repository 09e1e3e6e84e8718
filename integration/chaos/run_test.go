package chaos

import (
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
