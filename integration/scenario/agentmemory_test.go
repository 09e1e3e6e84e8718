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

// The resident memory of the real agent, as the kernel counts it. The bounds leave a tenth for the machine.
func TestAgentNeedsLittleMemory(t *testing.T) {
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
		t.Fatalf("the agent is a %T", r.Agent())
	}
	peak, err := agent.PeakMemoryBytes()
	must(t, err)
	time.Sleep(20 * time.Second) // until the agent is idle
	idle, err := agent.MemoryBytes()
	must(t, err)
	t.Logf("agent: %d MiB idle, %d MiB at most, %d objects", idle>>20, peak>>20, samplemodule.TypicalObjects)
	if idle > 45<<20 || peak > 60<<20 {
		t.Errorf("%d MiB idle, %d MiB at most, want 45 and 60", idle>>20, peak>>20)
	}
}
