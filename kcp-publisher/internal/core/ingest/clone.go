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
	// The reports of two agents with one key alternate, so a few instances are enough to detect them.
	maxEarlierInstances = 4
	// Agents of older versions report no instance ID. After reports with an instance ID, the publisher waits this long
	// before it applies the request of such an agent.
	anonymousWait = 10 * time.Minute
)

// reportingAgent returns the record of the reporting agent. It detects two agents with one key if one of them reports
// the other, or if an earlier instance ID is reported again.
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

// requestCounts reports whether the publisher applies the request in a report. A newly started agent can run in a clone
// of the cluster, which must not remove modules from the original cluster.
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
