package kindscenario

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestKilledAgentRecovers(t *testing.T) {
	startScenario(t)
	untilPromoted(t, stage.berlin)
	must(t, stage.berlin.CrashAgent())
	drift(t, stage.berlin)
	version := promote(t)
	must(t, stage.berlin.UntilState(t.Context(), samplemodule.Module, version, v1beta2.StateReady))
}
