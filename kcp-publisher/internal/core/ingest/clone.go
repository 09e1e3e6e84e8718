package ingest

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// maxEarlierInstances bounds the instances that are remembered: two agents take turns, so that the last ones are
	// enough.
	maxEarlierInstances = 4
	// anonymousWait is how long an agent without instances must report before its requests count, after one with
	// instances. An agent of an earlier version cannot look for the other one.
	anonymousWait = 10 * time.Minute
)

// reportingAgent returns the agent that reports, by the agent of the reports before and the newest one. It finds two
// agents that use one key: by the report of the one that found the other, and by an instance that returns. An agent
// that restarts never returns to an earlier instance.
//
// A clone is over when an operator lets another key or cluster enroll.
func reportingAgent(
	before *v1beta2.ReportingAgent,
	report bundle.AcceptedReport,
	seen time.Time,
) *v1beta2.ReportingAgent {
	next := &v1beta2.ReportingAgent{Instance: report.Instance, Since: metav1.NewMicroTime(seen)}
	if before == nil || report.Enrolled {
		return next
	}
	next.Earlier, next.Clone = before.Earlier, before.Clone
	switch {
	case report.Instance == before.Instance:
		next.Since = before.Since
	case slices.Contains(before.Earlier, report.Instance):
		next.Clone = cloned(report.Instance, before.Instance)
	case before.Instance != "":
		all := append(slices.Clone(before.Earlier), before.Instance)
		next.Earlier = all[max(0, len(all)-maxEarlierInstances):]
	}
	if report.Twin != "" {
		next.Clone = cloned(report.Instance, report.Twin)
	}
	return next
}

func cloned(one, other string) string {
	const most = 64
	return fmt.Sprintf(
		"two agents, instances %s and %s, report with the key of this runtime",
		bundle.Quote(one, most),
		bundle.Quote(other, most),
	)
}

// requestCounts reports whether the request in a report is taken up. An agent that has just started may be the copy of
// one that is running: its request counts once it is the only one, so that it removes nothing from the other.
func requestCounts(
	before *v1beta2.ReportingAgent,
	now v1beta2.ReportingAgent,
	report bundle.AcceptedReport,
	seen time.Time,
) bool {
	switch {
	case now.Clone != "":
		return false
	case report.Enrolled, before == nil, report.Confirmed:
		return true
	case report.Instance != "":
		return before.Instance == report.Instance && len(now.Earlier) == 0
	}
	return len(now.Earlier) == 0 || seen.Sub(now.Since.Time) >= anonymousWait
}
