package kindscenario

import (
	"fmt"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestRuntimeWithoutRegistryKeepsItsVersion(t *testing.T) {
	startScenario(t)
	ctx, berlin, tokyo := t.Context(), stage.berlin, stage.tokyo
	untilPromoted(t, berlin)
	untilPromoted(t, tokyo)
	before, link := stage.promoted, berlin.Link()
	addCleanup(link.Heal)
	must(t, link.Cut(ctx))
	version := promote(t)
	must(t, tokyo.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))
	until(t, "the link has dropped packets of berlin's agent", func() (bool, string) {
		dropped, err := link.Dropped(ctx)
		return err == nil && dropped > 0, fmt.Sprint(dropped, err)
	})
	drift(t, berlin)
	if config, err := settings(ctx, berlin); err != nil || config.Data["version"] != before {
		t.Errorf("berlin has settings %v although its link was cut: %v", config.Data, err)
	}
	must(t, link.Heal(ctx))
	must(t, berlin.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))
}
