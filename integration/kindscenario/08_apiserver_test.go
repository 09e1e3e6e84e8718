package kindscenario

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

// All pods keep running without the API server. The kubelet restarts an agent that ended after losing its Lease.
func TestAgentSurvivesAPIServerOutage(t *testing.T) {
	suite.Long(t) // the short suite runs TestRestartedRuntimeKeepsItsModules and the chaos test
	startScenario(t)
	ctx, r := t.Context(), stage.berlin
	untilPromoted(t, r)
	before, err := stage.kind.Containers(ctx, r.Agent())
	must(t, err)
	addCleanup(func(ctx context.Context) error { return stage.kind.StartAPIServer(ctx, r.Cluster()) })
	must(t, stage.kind.StopAPIServer(ctx, r.Cluster()))
	// The agent renews its Lease every minute, and ends 100 seconds after a failed renewal.
	const ended = "the agent has ended, as it could not keep its lease"
	must(t, fleet.Until(ctx, 4*time.Minute, ended, func() (bool, string) {
		now, err := stage.kind.Containers(ctx, r.Agent())
		return err == nil && !slices.Equal(now, before), fmt.Sprint(now, err)
	}))
	version := promote(t)
	must(t, stage.kind.StartAPIServer(ctx, r.Cluster()))
	must(t, r.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))
	untilRunning(t, r, promotedImage())
	drift(t, r)
}
