package control

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/rollout"
)

var (
	rolloutStates = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kyma_pull_publisher_rollouts", Help: "Newest rollouts of modules in channels, by state.",
	}, []string{"state"})
	rolloutRuntimes = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kyma_pull_publisher_rollout_runtimes", Help: "Runtimes of rollouts that are under way, by module, channel, wave and how they stand.",
	}, []string{"module", "channel", "wave", "state"})
)

func init() { metrics.Registry.MustRegister(rolloutStates, rolloutRuntimes) }

// setRolloutMetrics sets the metrics. Their series grow with modules that are being rolled out, never with runtimes.
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
