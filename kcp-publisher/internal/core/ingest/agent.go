package ingest

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// lastCertificate returns the validity period of the certificate in the latest bundle. If that bundle has no
// certificate, it returns the period in the previous status.
func lastCertificate(before *v1beta2.RuntimeStatus, published v1beta2.PublishedBundle) *v1beta2.CertificateLife {
	if published.Certificate == nil && before != nil && before.Published != nil && before.Key != nil {
		return before.Published.Certificate.DeepCopy()
	}
	return published.Certificate
}

// clearCertificate removes the certificate's validity period from the status if the agent enrolled with another key.
func clearCertificate(r *v1beta2.RuntimeStatus, thumbprint string) {
	if r.Published != nil && r.Key != nil && r.Key.Thumbprint != thumbprint {
		r.Published.Certificate = nil
	}
}

const (
	// If two agents use the same key, their reports alternate. A few earlier instance IDs are enough to detect this.
	maxEarlierInstances = 4
	// Agents of older versions do not report an instance ID. If such an agent starts to report instead of an agent with an
	// instance ID, the publisher applies its module request only after anonymousAgentDelay.
	anonymousAgentDelay = 10 * time.Minute
)

// reportingAgent returns the entry in the Kyma's status about the agent that sent the report. It detects two agents
// with the same key in one of two ways: an agent reports that it has found the other one, or an agent with an earlier
// instance ID reports again.
func reportingAgent(
	before *v1beta2.ReportingAgent, report bundle.AcceptedReport, seen time.Time,
) *v1beta2.ReportingAgent {
	next := &v1beta2.ReportingAgent{Instance: report.Instance, Since: metav1.NewMicroTime(seen)}
	if before != nil && !report.Enrolled { // earlier reports with another key do not count
		next.Earlier, next.Clone = before.Earlier, before.Clone
		switch {
		case report.Instance == before.Instance:
			next.Since = before.Since
		case slices.Contains(before.Earlier, report.Instance):
			next.Clone = cloneMessage(report.Instance, before.Instance)
		case before.Instance != "":
			all := append(slices.Clone(before.Earlier), before.Instance)
			next.Earlier = all[max(0, len(all)-maxEarlierInstances):]
		}
	}
	if report.Twin != "" {
		next.Clone = cloneMessage(report.Instance, report.Twin)
	}
	return next
}

// cloneMessage returns the same message if the reports of two agents alternate, so that it does not change the status.
func cloneMessage(one, other string) string {
	const most = 64
	one, other = min(one, other), max(one, other)
	return fmt.Sprintf("two agents, instances %s and %s, report with the key of this runtime", bundle.Quote(one, most),
		bundle.Quote(other, most))
}

// isRequestAccepted reports whether the publisher applies the module request in a report. A newly started agent may run
// in a copy of the cluster, and its request must not remove modules from the original cluster. Therefore, the publisher
// ignores its request until the agent has verified that no other agent uses its key.
func isRequestAccepted(
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
	return len(now.Earlier) == 0 || seen.Sub(now.Since.Time) >= anonymousAgentDelay
}

// validRecipient returns the recipient in a report, or "" if it is invalid.
func validRecipient(report bundle.Report) string {
	if bundle.CheckRecipient(report.Recipient) != nil {
		return ""
	}
	return report.Recipient
}
