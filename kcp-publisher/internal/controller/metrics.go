package controller

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/internal/measure"
)

var (
	bundlesPublished = measure.Counters[string](measure.Definition{
		Name: "kyma_pull_publisher_bundles_published_total", Help: "Bundles pushed to runtimes' repositories, by the reason why they were needed.",
		Labels: []string{"reason"}, Leader: true,
	})
	publishFailures = measure.Counter(measure.Definition{
		Name: "kyma_pull_publisher_publish_failures_total", Help: "Attempts to publish to one runtime that failed although the registry answered.", Leader: true,
	})
	publishToApplied = measure.Histograms(measure.Definition{
		Name:   "kyma_pull_publisher_publish_to_applied_seconds",
		Help:   "Time from issuing a bundle to the report that first names it as in force. Bundles that are replaced before are not counted.",
		Leader: true,
	}, publishToAppliedBuckets...)
	reportsRefused = measure.Counters(measure.Definition{
		Name: "kyma_pull_publisher_reports_refused_total", Help: "Reports that were refused, by the check that refused them.", Labels: []string{"reason"}, Leader: true,
	}, refusal.Reasons...)
	bundlesRefused = measure.Counters(measure.Definition{
		Name: "kyma_pull_publisher_bundles_refused_total", Help: "Bundles and roots of trust that runtimes refused, as their reports say, by the check that refused them.",
		Labels: []string{"reason"}, Leader: true,
	}, append([]refusal.Reason{otherReason}, refusal.Reasons...)...)
	registryDeviations = measure.Counters[string](measure.Definition{
		Name: "kyma_pull_publisher_registry_deviations_total", Help: "Times that the registry did not hold what was published, by what was wrong.",
		Labels: []string{"reason"}, Leader: true,
	})
	registryUp = measure.Gauge(measure.Definition{
		Name: "kyma_pull_publisher_registry_up", Help: "Whether the registry answered last time (1) or publishing waits for it (0).", Leader: true,
	})
	registryFailing = measure.Gauge(measure.Definition{
		Name: "kyma_pull_publisher_registry_failing_runtimes", Help: "Runtimes whose repositories the registry does not answer for, although it answers for others.",
		Leader: true,
	})
	rootExpiry = measure.Gauge(measure.Definition{
		Name: "kyma_pull_publisher_root_expiry_timestamp_seconds", Help: "Unix time at which the root of trust expires: no agent accepts a bundle after it.", Leader: true,
	})
	keysAccepted = measure.Gauge(measure.Definition{
		Name:   "kyma_pull_publisher_keys_accepted",
		Help:   "Whether runtimes would accept what the publisher's keys sign (1), or publishing has stopped for its root of trust is expired or outdated, or does not list them (0).",
		Leader: true,
	})
	mandatoryModules = measure.Gauge(measure.Definition{
		Name: "kyma_pull_publisher_mandatory_modules", Help: "Modules that every runtime gets unasked.", Leader: true,
	})
)

// ObserveRegistry measures the requests that are sent to registries by a transport.
var ObserveRegistry = measure.Requests(measure.Definition{
	Name: "kyma_pull_publisher_registry_request_duration_seconds",
	Help: "Time until a registry answered a request, by method and class of the status: 2xx, 3xx, 4xx, 429, 5xx, or error without an answer.",
})

// otherReason stands for reasons that this version does not know: they are a runtime's own word, of which there may be
// any number.
const otherReason refusal.Reason = "(other)"

// publishToAppliedBuckets reach from a notified runtime to one that was switched off over night.
var publishToAppliedBuckets = []float64{
	1, 2, 5, 10, 20, 30, time.Minute.Seconds(), 2 * time.Minute.Seconds(), 5 * time.Minute.Seconds(), 10 * time.Minute.Seconds(), 30 * time.Minute.Seconds(),
	time.Hour.Seconds(), 4 * time.Hour.Seconds(), 12 * time.Hour.Seconds(), 24 * time.Hour.Seconds(),
}
