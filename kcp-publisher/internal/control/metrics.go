package control

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	bundlesPublished = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kyma_pull_publisher_bundles_published_total", Help: "Bundles pushed to runtimes' repositories, by the reason why they were needed.",
	}, []string{"reason"})
	publishFailures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kyma_pull_publisher_publish_failures_total", Help: "Attempts to publish to one runtime that failed although the registry answered.",
	})
	reportsRefused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kyma_pull_publisher_reports_refused_total", Help: "Reports that were refused, by the check that refused them.",
	}, []string{"reason"})
	registryDeviations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kyma_pull_publisher_registry_deviations_total", Help: "Times that the registry did not hold what was published, by what was wrong.",
	}, []string{"reason"})
	registryUp = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kyma_pull_publisher_registry_up", Help: "Whether the registry answered last time (1) or publishing waits for it (0).",
	})
	registryFailing = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kyma_pull_publisher_registry_failing_runtimes", Help: "Runtimes whose repositories the registry does not answer for, although it answers for others.",
	})
	rootExpiry = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kyma_pull_publisher_root_expiry_timestamp_seconds", Help: "Unix time at which the root of trust expires: no agent accepts a bundle after it.",
	})
	keysAccepted = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kyma_pull_publisher_keys_accepted", Help: "Whether runtimes would accept what the publisher's keys sign (1), or publishing has stopped for its root of trust is expired or outdated, or does not list them (0).",
	})
	runtimes = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kyma_pull_publisher_runtimes", Help: "Runtimes by the state of their Kyma.",
	}, []string{"state"})
	moduleStates = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kyma_pull_publisher_modules", Help: "Modules of all runtimes by their name and state; mandatory modules, which no status tells of, are not counted.",
	}, []string{"module", "state"})
	mandatoryModules = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kyma_pull_publisher_mandatory_modules", Help: "Modules that every runtime gets unasked.",
	})
	runtimeStates = states{of: map[string]counted{}}
)

func init() {
	metrics.Registry.MustRegister(bundlesPublished, publishFailures, reportsRefused, registryDeviations, registryUp, registryFailing, rootExpiry,
		keysAccepted, runtimes, moduleStates, mandatoryModules)
}
