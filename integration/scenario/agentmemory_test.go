package scenario

import (
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

// The test measures the resident memory of the real agent. It excludes pages of the executable, which the kernel can
// drop.
func TestAgentMemoryStaysBelowLimit(t *testing.T) {
	suite.Long(t)
	ctx := t.Context()
	f := startFleet(t, fleet.Options{Measured: true})
	v := samplemodule.Typical("1.0.0")
	must(t, f.Offer(ctx, v))
	must(t, f.Release(ctx, v.Module, v.Component(), sample.Channel("regular", "1.0.0")))
	r, err := f.AddRuntime(ctx, "one", "regular", v.Module)
	must(t, err)
	must(t, r.UntilState(ctx, v.Module, "1.0.0", v1beta2.StateReady))
	agent, ok := r.Agent().(*fleet.Process)
	if !ok {
		t.Fatalf("got an agent of type %T, want a process", r.Agent())
	}
	peak, err := agent.PeakMemoryBytes()
	must(t, err)
	time.Sleep(20 * time.Second) // after this time, the agent is idle
	idle, err := agent.MemoryBytes()
	must(t, err)
	anonymous, err := agent.AnonymousMemoryBytes()
	must(t, err)
	t.Logf("idle: %d MiB resident, %d MiB anonymous; peak: %d MiB", idle>>20, anonymous>>20, peak>>20)
	if anonymous > 30<<20 || peak > 65<<20 {
		t.Errorf("got %d MiB anonymous and a peak of %d MiB, want at most 30 and 65", anonymous>>20, peak>>20)
	}
}
