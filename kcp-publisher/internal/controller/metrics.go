package controller

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/internal/measure"
)

var (
	bundlesPublished = measure.Counters[string](measure.Definition{
		Name:   "kyma_pull_publisher_bundles_published_total",
		Help:   "Bundles pushed to runtimes' repositories, by the reason for the push.",
		Labels: []string{"reason"}, Leader: true,
	})
	publishFailures = measure.Counter(measure.Definition{
		Name: "kyma_pull_publisher_publish_failures_total",
		Help: "Failed attempts to publish to a runtime while the registry was available.", Leader: true,
	})
	publishToApplied = measure.Histograms(measure.Definition{
		Name: "kyma_pull_publisher_publish_to_applied_seconds",
		Help: "Time from issuing a bundle to the first report that lists it as applied. Bundles that were " +
			"replaced before the runtime reported them are not counted.",
		Leader: true,
	}, publishToAppliedBuckets...)
	reportsRefused = measure.Counters(measure.Definition{
		Name: "kyma_pull_publisher_reports_refused_total",
		Help: "Reports that were refused, by the check that refused them.", Labels: []string{"reason"}, Leader: true,
	}, refusal.Reasons...)
	bundlesRefused = measure.Counters(measure.Definition{
		Name:   "kyma_pull_publisher_bundles_refused_total",
		Help:   "Bundles and roots of trust that runtimes reported as refused, by the check that refused them.",
		Labels: []string{"reason"}, Leader: true,
	}, append([]refusal.Reason{otherReason}, refusal.Reasons...)...)
	registryDeviations = measure.Counters[string](measure.Definition{
		Name:   "kyma_pull_publisher_registry_deviations_total",
		Help:   "Times that published content was missing or different in the registry, by deviation.",
		Labels: []string{"reason"}, Leader: true,
	})
	registryUp = measure.Gauge(measure.Definition{
		Name: "kyma_pull_publisher_registry_up",
		Help: "Whether the registry is available (1), or publishing waits for it (0).", Leader: true,
	})
	rootExpiry = measure.Gauge(measure.Definition{
		Name: "kyma_pull_publisher_root_expiry_timestamp_seconds",
		Help: "Unix time at which the root of trust expires; agents accept no bundles afterwards.", Leader: true,
	})
	keysAccepted = measure.Gauge(measure.Definition{
		Name: "kyma_pull_publisher_keys_accepted",
		Help: "Whether runtimes would accept the signatures of the publisher's keys (1), or publishing has stopped " +
			"because the root of trust is expired, outdated, or does not list them (0).",
		Leader: true,
	})
	mandatoryModules = measure.Gauge(measure.Definition{
		Name: "kyma_pull_publisher_mandatory_modules", Help: "Mandatory modules in the catalog.", Leader: true,
	})
)

// ObserveRegistry wraps an HTTP transport and measures its requests to registries.
var ObserveRegistry = measure.Requests(measure.Definition{
	Name: "kyma_pull_publisher_registry_request_duration_seconds",
	Help: "Time until a registry responded to a request, by method and status class: 2xx, 3xx, 4xx, 429, 5xx, or " +
		"error without a response.",
})

// otherReason is the metric label value for unknown reasons. Runtimes can report any text as a reason, so this text
// must not become a label value.
const otherReason refusal.Reason = "(other)"

// publishToAppliedBuckets contains histogram buckets from one second to one day. The shortest are for agents that
// receive notifications, because these agents do not wait for their next poll.
var publishToAppliedBuckets = []float64{
	1, 2, 5, 10, 20, 30, time.Minute.Seconds(), 2 * time.Minute.Seconds(), 5 * time.Minute.Seconds(),
	10 * time.Minute.Seconds(), 30 * time.Minute.Seconds(),
	time.Hour.Seconds(), 4 * time.Hour.Seconds(), 12 * time.Hour.Seconds(), 24 * time.Hour.Seconds(),
}
