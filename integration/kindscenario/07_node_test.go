package kindscenario

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestRestartedRuntimeKeepsItsModules(t *testing.T) {
	startScenario(t)
	untilPromoted(t, stage.berlin)
	before, err := stage.berlin.Started(t.Context())
	must(t, err)
	must(t, stage.berlin.Restart())
	if after, err := stage.berlin.Started(t.Context()); err != nil || !after.After(before) {
		t.Fatalf("the runtime was not restarted: last start is %s, previously %s: %v", after, before, err)
	}
	drift(t, stage.berlin)
	version := promote(t)
	must(t, stage.berlin.UntilState(t.Context(), samplemodule.Module, version, v1beta2.StateReady))
	untilRunning(t, stage.berlin, promotedImage())
}
