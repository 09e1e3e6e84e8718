package agent

import (
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/internal/measure"
)

// There is one agent in a runtime that works, so that all of them are of the leader.
var (
	bundlesAccepted = measure.Counter(measure.Definition{
		Name: "kyma_pull_agent_bundles_accepted_total", Help: "Bundles that were taken into force.", Leader: true,
	})
	bundlesRefused = measure.Counters(measure.Definition{
		Name: "kyma_pull_agent_bundles_refused_total", Help: "Bundles and roots of trust that were refused, by the check that refused them.",
		Labels: []string{"reason"}, Leader: true,
	}, refusal.Reasons...)
	lastPoll = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_last_poll_timestamp_seconds",
		Help: "Unix time of the last poll that the registry answered and whose bundle could be judged and kept; none before the first.", Leader: true,
	})
	pollFailures = measure.Counter(measure.Definition{
		Name: "kyma_pull_agent_poll_failures_total", Help: "Polls that the registry did not answer, or whose bundle could not be kept.", Leader: true,
	})
	sequenceInForce = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_bundle_sequence", Help: "Sequence of the bundle in force.", Leader: true,
	})
	expiry = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_bundle_expiry_timestamp_seconds", Help: "Unix time at which the bundle in force expires.", Leader: true,
	})
	rootVersion = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_root_version", Help: "Version of the root of trust that is followed.", Leader: true,
	})
	rootExpiry = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_root_expiry_timestamp_seconds", Help: "Unix time at which the root of trust expires: no bundle is accepted after it.", Leader: true,
	})
	certificateExpiry = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_certificate_expiry_timestamp_seconds", Help: "Unix time at which the agent's certificate expires; none without one.", Leader: true,
	})
	reportsSent = measure.Counter(measure.Definition{
		Name: "kyma_pull_agent_reports_sent_total", Help: "Reports delivered to the registry.", Leader: true,
	})
	reportFailures = measure.Counter(measure.Definition{
		Name: "kyma_pull_agent_report_failures_total", Help: "Attempts to deliver a report that failed.", Leader: true,
	})
	upgradesWaiting = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_upgrades_waiting", Help: "Modules whose upgrade waits for a maintenance window.", Leader: true,
	})
	modules = measure.Gauges(measure.Definition{
		Name: "kyma_pull_agent_modules", Help: "1 for each installed module in the state that it is in.", Labels: []string{"module", "state"}, Leader: true,
	})
)

// measurePoll notes how a poll went; unanswered says that newer bundles cannot be had, whatever the reason.
func (a *Agent) measurePoll(unanswered, changed bool, now time.Time) {
	rootVersion.Set(float64(a.Puller.Root().Version))
	rootExpiry.Set(float64(a.Puller.Root().Expires.Unix()))
	if unanswered {
		pollFailures.Inc()
	} else {
		lastPoll.Set(float64(now.Unix()))
	}
	if changed {
		bundlesAccepted.Inc()
	}
	// The bundle in force may be one that was kept before this process began.
	if b := a.Puller.Current(); b != nil {
		sequenceInForce.Set(float64(b.Statement.Predicate.Sequence))
		expiry.Set(float64(b.Statement.Predicate.ExpiresAt.Unix()))
	}
}

// measureModules counts what is installed.
func measureModules(installed []v1beta2.Manifest) {
	modules.Reset()
	for i := range installed {
		modules.WithLabelValues(installed[i].Module(), string(installed[i].Status.State)).Inc()
	}
}
