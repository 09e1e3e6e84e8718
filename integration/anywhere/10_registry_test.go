package anywhere

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestRegistryCutForAll(t *testing.T) {
	scene(t)
	ctx := t.Context()
	both := []*fleet.Runtime{stage.berlin, stage.tokyo}
	for _, r := range both {
		well(t, r)
	}
	next := offer(t)
	before, waits := stage.promoted, strings.Count(stage.fleet.Publisher().Log(), "publishing waits")
	must(t, stage.fleet.CutRegistry())
	heal := sync.OnceValue(stage.fleet.HealRegistry)
	undo(func(context.Context) error { return heal() })
	must(t, release(ctx, next))
	until(t, "the publisher notices", func() (bool, string) {
		log := stage.fleet.Publisher().Log()
		return strings.Count(log, "publishing waits") > waits, last(log)
	})
	for _, r := range both {
		drift(t, r)
		if config, err := settings(ctx, r); err != nil || config.Data["version"] != before {
			t.Errorf("%s has %v although there is no registry: %v", r.ID, config.Data, err)
		}
	}
	must(t, heal())
	for _, r := range both {
		must(t, r.UntilState(ctx, samplemodule.Module, next, v1beta2.StateReady))
	}
}
