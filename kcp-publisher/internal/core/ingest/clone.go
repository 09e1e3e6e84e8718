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
	// maxEarlierInstances limits the remembered instances. Two agents alternate, so a few are enough.
	maxEarlierInstances = 4
	// anonymousWait is the time that an agent without instances must report before its requests count, after an agent with
	// instances. An agent of an earlier version cannot detect the other one.
	anonymousWait = 10 * time.Minute
)

// reportingAgent returns the reporting agent from the previous agent and the newest report. It detects two agents with
// one key in two ways: an agent reports the other one, or an earlier instance returns. An agent that restarts never
// returns to an earlier instance. The state ends when an operator lets another key or cluster enroll.
func reportingAgent(
	before *v1beta2.ReportingAgent, report bundle.AcceptedReport, seen time.Time,
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
	return fmt.Sprintf("two agents, instances %s and %s, report with the key of this runtime", bundle.Quote(one, most),
		bundle.Quote(other, most))
}

// requestCounts reports whether the request in a report is applied. An agent that has just started may be a copy of a
// running one. Its request counts once it is the only agent, so it removes nothing from the other.
func requestCounts(
	before *v1beta2.ReportingAgent, now v1beta2.ReportingAgent, report bundle.AcceptedReport, seen time.Time,
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
