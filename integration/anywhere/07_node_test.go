package anywhere

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestRuntimeThatIsRestartedComesBackWithItsModules(t *testing.T) {
	scene(t)
	onKind(t, "a node")
	well(t, stage.berlin)
	boot := func() string {
		started, err := stage.kind.Started(t.Context(), stage.berlin.ID)
		must(t, err)
		return started
	}
	before := boot()
	must(t, stage.berlin.Restart())
	if boot() == before {
		t.Fatal("the node was not restarted")
	}
	drift(t, stage.berlin)
	version := promote(t)
	must(t, stage.berlin.UntilState(t.Context(), samplemodule.Module, version, v1beta2.StateReady))
	untilRunning(t, stage.berlin, promotedImage())
}
