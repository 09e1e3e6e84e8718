package controller

import (
	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/measure"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

var (
	rolloutStates = measure.Gauges(measure.Definition{
		Name: "kyma_pull_publisher_rollouts", Help: "Latest rollouts of modules in channels, by state.", Labels: []string{"state"}, Leader: true,
	})
	rolloutRuntimes = measure.Gauges(measure.Definition{
		Name: "kyma_pull_publisher_rollout_runtimes", Help: "Runtimes of active rollouts, by module, channel, wave and state.",
		Labels: []string{"module", "channel", "wave", "state"}, Leader: true,
	})
)

// setRolloutMetrics sets the metrics. Their number of series grows with active rollouts, never with runtimes.
func setRolloutMetrics(newest []*fleet.Rollout) {
	rolloutStates.Reset()
	rolloutRuntimes.Reset()
	for _, r := range newest {
		rolloutStates.WithLabelValues(string(r.Status.State)).Inc()
		if rollout.Finished(r.Status.State) {
			continue
		}
		for _, w := range r.Status.Waves {
			for state, count := range map[string]int32{
				"updated": w.Updated, "in-flight": w.InFlight, "failed": w.Failed, "deferred": w.Deferred,
				"waiting": w.Total - w.Updated - w.InFlight - w.Failed - w.Deferred,
			} {
				rolloutRuntimes.WithLabelValues(r.Spec.Module, r.Spec.Channel, w.Name, state).Set(float64(count))
			}
		}
	}
}
