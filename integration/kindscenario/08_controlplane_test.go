package kindscenario

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestRuntimesWorkWithoutTheControlPlane(t *testing.T) {
	startScenario(t)
	ctx := t.Context()
	untilPromoted(t, stage.berlin)
	must(t, stage.fleet.PauseControlPlane())
	resume := sync.OnceValue(stage.fleet.ResumeControlPlane)
	addCleanup(func(context.Context) error { return resume() })
	short, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := stage.fleet.Control.List(short, &v1beta2.KymaList{}); err == nil {
		t.Fatal("the control plane responds although it was stopped")
	}
	drift(t, stage.berlin)
	must(t, resume())
	until(t, "the control plane responds again", func() (bool, string) {
		err := stage.fleet.Control.List(ctx, &v1beta2.KymaList{})
		return err == nil, fmt.Sprint(err)
	})
	version := promote(t)
	must(t, stage.berlin.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))
}
