package agent

import (
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/internal/measure"
)

// Only the leading agent sets these metrics.
var (
	bundlesAccepted = measure.Counter(measure.Definition{
		Name: "kyma_pull_agent_bundles_accepted_total", Help: "Accepted bundles.", Leader: true,
	})
	bundlesRefused = measure.Counters(measure.Definition{
		Name: "kyma_pull_agent_bundles_refused_total", Help: "Refused bundles and roots of trust, by the failed check.",
		Labels: []string{"reason"}, Leader: true,
	}, refusal.Reasons...)
	lastPoll = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_last_poll_timestamp_seconds",
		Help: "Unix time of the last poll that could read the registry and store the bundle. Absent before the first " +
			"such poll.", Leader: true,
	})
	pollFailures = measure.Counter(measure.Definition{
		Name: "kyma_pull_agent_poll_failures_total",
		Help: "Polls that failed because the registry did not respond or the bundle could not be stored.", Leader: true,
	})
	sequenceInForce = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_bundle_sequence", Help: "Sequence of the last accepted bundle.", Leader: true,
	})
	expiry = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_bundle_expiry_timestamp_seconds",
		Help: "Unix time at which the last accepted bundle expires.", Leader: true,
	})
	rootVersion = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_root_version", Help: "Version of the root of trust in use.", Leader: true,
	})
	rootExpiry = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_root_expiry_timestamp_seconds",
		Help: "Unix time at which the root of trust expires. The agent does not accept bundles afterwards.", Leader: true,
	})
	certificateExpiry = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_certificate_expiry_timestamp_seconds",
		Help: "Unix time at which the agent's certificate expires. Absent without a certificate.", Leader: true,
	})
	reportsSent = measure.Counter(measure.Definition{
		Name: "kyma_pull_agent_reports_sent_total", Help: "Reports delivered to the registry.", Leader: true,
	})
	reportFailures = measure.Counter(measure.Definition{
		Name: "kyma_pull_agent_report_failures_total", Help: "Failed attempts to deliver a report.", Leader: true,
	})
	upgradesWaiting = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_upgrades_waiting", Help: "Modules whose upgrade waits for a maintenance window.",
		Leader: true,
	})
	modules = measure.Gauges(measure.Definition{
		Name: "kyma_pull_agent_modules", Help: "1 for each installed module and its state.",
		Labels: []string{"module", "state"}, Leader: true,
	})
)

// measurePoll records a poll's result in metrics. failed means that reading or storing the bundle failed.
func (a *Agent) measurePoll(failed, changed bool, now time.Time) {
	rootVersion.Set(float64(a.Puller.Root().Version))
	rootExpiry.Set(float64(a.Puller.Root().Expires.Unix()))
	if failed {
		pollFailures.Inc()
	} else {
		lastPoll.Set(float64(now.Unix()))
	}
	if changed {
		bundlesAccepted.Inc()
	}
	// Set these metrics for an unchanged bundle too, because a previous process can have accepted it.
	if b := a.Puller.Current(); b != nil {
		sequenceInForce.Set(float64(b.Statement.Predicate.Sequence))
		expiry.Set(float64(b.Statement.Predicate.ExpiresAt.Unix()))
	}
}

func measureModules(installed []v1beta2.Manifest) {
	modules.Reset()
	for i := range installed {
		modules.WithLabelValues(installed[i].Module(), string(installed[i].Status.State)).Inc()
	}
}
