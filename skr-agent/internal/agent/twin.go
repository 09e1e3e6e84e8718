package agent

import (
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

// confirmingPolls is the number of polls that must find the agent's own report in the registry. After these polls, the
// agent assumes that no other agent has its key, because a second agent would have replaced the report.
const confirmingPolls = 3

// minConfirmingDelay returns the minimum delay between two polls that count toward confirmingPolls. A notification can
// cause several polls within one poll interval, but a second agent that receives no notifications polls only once per
// interval. The delay is shorter than the poll interval, because each poll is randomly early or late.
func minConfirmingDelay(pollInterval time.Duration) time.Duration { return pollInterval * 4 / 5 }

// twinDetector detects a second agent with the same key, such as in a cluster that was restored from a snapshot. The
// registry then contains a newer report that this agent did not write.
type twinDetector struct {
	// ownReport is the digest of the last report that this agent sent. It is empty before the first report.
	ownReport digest.Digest
	// confirmations counts the polls that found ownReport in the registry. confirmedAt is the time of the last counted
	// poll. Before the first counted poll, it is the time of the first report.
	confirmations int
	confirmedAt   time.Time
	// foundUnknownReporter is true if, at the start of this agent, the newest report in the registry came from an agent
	// that is unknown in this cluster. It is also true if that report could not be read, or if the previous process of
	// this agent stopped before it was confirmed. This agent accepts no newer bundle until it is confirmed, because a
	// copy of the cluster may have removed modules while this cluster's agents were down.
	foundUnknownReporter bool
	// twin is the second agent's instance ID. It stays set until the agent restarts. Until then, the agent accepts no
	// newer bundle, which could be for the other cluster.
	twin string
}

// isConfirmed reports whether enough polls found this agent's report and no second agent was detected.
func (t *twinDetector) isConfirmed() bool { return t.twin == "" && t.confirmations >= confirmingPolls }

// holdsBundles reports whether the agent must not accept a newer bundle, which could be for another cluster.
func (t *twinDetector) holdsBundles() bool {
	return t.twin != "" || t.foundUnknownReporter && !t.isConfirmed()
}

// recordStart examines the newest report in the registry before this agent sends its first report. last is zero if the
// registry has no report with this agent's key. reporter and sequence are the saved sender and sequence of the last
// report from this cluster. reporter is empty if the sender is unknown.
func (t *twinDetector) recordStart(last bundle.AcceptedReport, reporter string, sequence int64) {
	if t.ownReport != "" {
		return // this agent may have replaced the report of an unknown agent
	}
	t.foundUnknownReporter = reporter == pull.UnconfirmedReporter ||
		reporter != "" && last.Instance != "" && last.Instance != reporter && last.Sequence > sequence
}

// recordUnreadStart records that the newest report could not be read before this agent sends its first report. An agent
// that never reported has no copies.
func (t *twinDetector) recordUnreadStart(reporter string) {
	if t.ownReport == "" {
		t.foundUnknownReporter = reporter != ""
	}
}

func (t *twinDetector) recordReport(d digest.Digest, now time.Time) {
	if t.ownReport == "" {
		t.confirmedAt = now
	}
	t.ownReport = d
}

// recordPoll counts a poll that found ownReport in the registry, unless it is too soon after the last counted poll.
func (t *twinDetector) recordPoll(now time.Time, pollInterval time.Duration) {
	if now.Sub(t.confirmedAt) >= minConfirmingDelay(pollInterval) {
		t.confirmations, t.confirmedAt = min(t.confirmations+1, confirmingPolls), now
	}
}

// detectTwin reports whether the newest report in the registry comes from a second agent. newest is this report's
// digest. report is nil if another key signed it. instance and sequence are this agent's instance ID and last sequence.
func (t *twinDetector) detectTwin(
	newest digest.Digest, report *bundle.AcceptedReport, instance string, sequence int64,
) bool {
	switch {
	case t.ownReport == "" || newest == "":
		return false // before its first report, the agent finds the previous process's report
	case newest == t.ownReport:
		return false
	case report == nil || report.Sequence <= sequence || report.Instance == instance:
		// The report comes from an older copy of the registry or from this process.
		return false
	}
	if t.twin = report.Instance; t.twin == "" {
		t.twin = "unknown"
	}
	return true
}
