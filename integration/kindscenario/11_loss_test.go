package kindscenario

import (
	"fmt"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestPromotionArrivesOverABadNetwork(t *testing.T) {
	startScenario(t)
	ctx, r := t.Context(), stage.berlin
	untilPromoted(t, r)
	link := r.Link()
	addCleanup(link.Heal)
	how, err := link.Impair(ctx)
	must(t, err)
	t.Log(how)
	version := promote(t)
	must(t, r.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))
	until(t, "the link has dropped packets", func() (bool, string) {
		dropped, err := link.Dropped(ctx)
		return err == nil && dropped > 0, fmt.Sprint(dropped, err)
	})
}
