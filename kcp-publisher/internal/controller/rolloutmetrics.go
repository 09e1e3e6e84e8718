package controller

import (
	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/measure"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

var (
	rolloutStates = measure.Gauges(measure.Definition{
		Name: "kyma_pull_publisher_rollouts", Help: "Latest rollouts for modules in channels, by state.",
		Labels: []string{"state"}, Leader: true,
	})
	rolloutRuntimes = measure.Gauges(measure.Definition{
		Name:   "kyma_pull_publisher_rollout_runtimes",
		Help:   "Runtimes in active rollouts, by module, channel, wave and state.",
		Labels: []string{"module", "channel", "wave", "state"}, Leader: true,
	})
	rolloutChecks = measure.Gauges(measure.Definition{
		Name:   "kyma_pull_publisher_check_results",
		Help:   "Runtimes in the latest rollouts, by module, channel, check and result.",
		Labels: []string{"module", "channel", "check", "result"}, Leader: true,
	})
)

// setRolloutMetrics updates the metrics about Rollouts. The number of time series depends on the number of active
// Rollouts, not on the number of runtimes.
func setRolloutMetrics(newest []*fleet.Rollout) {
	rolloutStates.Reset()
	rolloutRuntimes.Reset()
	rolloutChecks.Reset()
	for _, r := range newest {
		rolloutStates.WithLabelValues(string(r.Status.State)).Inc()
		setCheckMetrics(r)
		if rollout.IsFinished(r.Status.State) {
			continue
		}
		for _, w := range r.Status.Waves {
			for state, count := range map[string]int32{
				"updated": w.Updated, "in-flight": w.InFlight, "failed": w.Failed, "deferred": w.Deferred,
				"waiting": w.Total - w.Updated - w.InFlight - w.Failed - w.Deferred,
			} {
				rolloutRuntimes.WithLabelValues(r.Spec.Module, r.Spec.Channel, w.Name, state).Add(float64(count))
			}
		}
	}
}

func setCheckMetrics(r *fleet.Rollout) {
	for _, w := range r.Status.Waves {
		for _, c := range w.Checks {
			for result, count := range map[v1beta2.CheckResult]int32{
				v1beta2.CheckPassed: c.Passed, v1beta2.CheckFailed: c.Failed, v1beta2.CheckInconclusive: c.Inconclusive,
			} {
				rolloutChecks.WithLabelValues(r.Spec.Module, r.Spec.Channel, c.Name, string(result)).Add(float64(count))
			}
		}
	}
}
