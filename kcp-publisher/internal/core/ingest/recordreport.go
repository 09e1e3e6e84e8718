package ingest

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// RecordReport copies the report's data to status.runtime in memory. seen is the time at which the publisher first read
// the report.
func RecordReport(
	status *v1beta2.KymaStatus, report bundle.AcceptedReport, publicKey, thumbprint string, seen time.Time,
) {
	if status.Runtime == nil {
		status.Runtime = &v1beta2.RuntimeStatus{}
	}
	r := status.Runtime
	last := lastReportTime(*r, report, seen)
	r.ReportSequence = report.Sequence
	r.Observed = &v1beta2.ObservedBundle{
		Time: metav1.NewTime(report.Time.UTC().Truncate(time.Second)), Heard: &last, AgentVersion: report.AgentVersion,
		KubernetesVersion: report.KubernetesVersion, ClusterUID: report.ClusterUID, Report: report.Content.String(),
		Features: plan.RecordFeatures(report.Report),
	}
	if o := report.Observed; o != nil {
		r.Observed.Epoch, r.Observed.Sequence, r.Observed.Digest = o.Epoch, o.Sequence, o.Digest.String()
	}
	// A report that omits the requested modules does not change the request in the status.
	before := r.Agent
	r.Agent = reportingAgent(before, report, seen)
	accepted := isRequestAccepted(before, *r.Agent, report, seen)
	if report.Kyma != nil && !report.Kyma.Deleting && !report.OmitsRequest() && accepted {
		next := &v1beta2.RequestedSpec{Spec: *report.Kyma.Spec.DeepCopy(), Generation: report.Kyma.Generation}
		if before == nil || isRequestVerified(r.Requested, report) {
			next.Instance = report.Instance
		}
		r.Requested = next
	}
	phase.RecordReport(r, report.Report)
	if report.Enrolled {
		clearCertificate(r, thumbprint)
		r.Key = &v1beta2.RuntimeKey{
			Thumbprint: thumbprint, PublicKey: publicKey,
			TokenExpires: metav1.NewTime(earliest(report.Time, seen).UTC().Truncate(time.Second)),
		}
		if report.Enrollment != nil {
			r.Key.TokenExpires = metav1.Unix(report.Enrollment.TokenExpires, 0)
			recordAssignment(r, seen)
		}
	}
	if r.Key != nil {
		if r.Key.ClusterUID == "" {
			r.Key.ClusterUID = report.ClusterUID // after this, only a new enrollment changes the cluster UID
		}
		if accepted { // a copy of the cluster must not receive the runtime's Secrets
			r.Key.Recipient = validRecipient(report.Report)
		}
	}
}

// recordAssignment records that an operator assigned the runtime to this Kyma with an enrollment token. at is the time
// of the assignment.
func recordAssignment(r *v1beta2.RuntimeStatus, at time.Time) {
	next := v1beta2.Assignment{}
	if r.Assignment != nil {
		next = *r.Assignment
	}
	next.Decided = max(next.Decided, at.UnixMilli())
	r.Assignment = &next
}

// lastCertificate returns the validity period of the certificate in the latest bundle. If that bundle has no
// certificate, it returns the period in the previous status.
func lastCertificate(before *v1beta2.RuntimeStatus, published v1beta2.PublishedBundle) *v1beta2.CertificateLife {
	if published.Certificate == nil && before != nil && before.Published != nil && before.Key != nil {
		return before.Published.Certificate.DeepCopy()
	}
	return published.Certificate
}

// clearCertificate removes the certificate's validity period from the status if the agent enrolled with a different
// key.
func clearCertificate(r *v1beta2.RuntimeStatus, thumbprint string) {
	if r.Published != nil && r.Key != nil && r.Key.Thumbprint != thumbprint {
		r.Published.Certificate = nil
	}
}

const (
	// If two agents use the same key, their reports alternate. A few earlier instance IDs are enough to detect this.
	maxEarlierInstances = 4
	// Older agents do not report an instance ID. If such an agent starts to report instead of an agent with an instance
	// ID, the publisher applies its module request only after anonymousAgentDelay.
	anonymousAgentDelay = 10 * time.Minute
)

// reportingAgent returns the entry in the Kyma's status about the agent that sent the report. It detects two agents
// with the same key in one of two ways: an agent reports that it has found the other one, or an agent with an earlier
// instance ID reports again.
func reportingAgent(
	before *v1beta2.ReportingAgent, report bundle.AcceptedReport, seen time.Time,
) *v1beta2.ReportingAgent {
	next := &v1beta2.ReportingAgent{Instance: report.Instance, Since: metav1.NewMicroTime(seen)}
	if before != nil && !report.Enrolled { // earlier reports with a different key do not count
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

// cloneMessage returns a message about two agents with the same key. The message does not depend on the order of the
// two instances, so the status does not change while the reports of the two agents alternate.
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

// isRequestVerified reports whether an accepted request can change modules. If an agent enrolls again, its request
// waits until the agent has verified that no other agent uses its key. After a restore of the control plane, the status
// does not contain the key, so a cluster and its copy can both enroll with it. before is the request in the status.
func isRequestVerified(before *v1beta2.RequestedSpec, report bundle.AcceptedReport) bool {
	return report.Confirmed || before == nil && !report.Enrolled || before != nil && before.Instance == report.Instance
}

// validRecipient returns the runtime's public key for the encryption of Secrets, or "" if the key in the report is
// invalid.
func validRecipient(report bundle.Report) string {
	if bundle.CheckRecipient(report.Recipient) != nil {
		return ""
	}
	return report.Recipient
}

// lastReportTime returns the time at which a report was received. seen is the time at which this publisher read it. A
// repeated or replayed report must not count as new. Therefore, if the status already contains the report's sequence
// number, lastReportTime returns the earlier time from the status.
func lastReportTime(before v1beta2.RuntimeStatus, report bundle.AcceptedReport, seen time.Time) metav1.Time {
	if before.Observed == nil || before.ReportSequence != report.Sequence || report.Enrolled {
		return metav1.NewTime(seen.UTC().Truncate(time.Second))
	}
	if before.Observed.Heard != nil {
		return metav1.NewTime(earliest(before.Observed.Heard.Time, seen).UTC().Truncate(time.Second))
	}
	// Older publishers did not record when reports arrived.
	return metav1.NewTime(earliest(report.Time, seen).UTC().Truncate(time.Second))
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// ArrivalTime returns the time at which a report arrived. Another publisher may have received a report before this
// publisher started. Therefore, for the first report that this publisher reads, ArrivalTime computes the arrival time
// from the report's creation time.
func ArrivalTime(before *v1beta2.RuntimeStatus, report bundle.AcceptedReport, first bool, now time.Time) time.Time {
	if before == nil || before.Observed == nil || report.Enrolled {
		return now
	}
	if !first || before.Observed.Heard == nil || report.Sequence <= before.ReportSequence {
		return lastReportTime(*before, report, now).Time
	}
	noted := before.Observed.Heard.Time
	at := report.Time.Add(noted.Sub(before.Observed.Time.Time))
	if at.Before(noted) {
		at = noted
	}
	return earliest(at, now)
}

// KnownSecrets returns the names of all Secrets that may exist in the runtime: the Secrets to publish, and earlier
// Secrets that the runtime has not removed yet.
func KnownSecrets(before []string, current []bundle.RuntimeSecret, facts Facts) []string {
	var known []string
	for _, s := range current {
		known = append(known, s.NamespacedName())
	}
	switch {
	case !areSecretsApplied(facts):
		known = append(known, before...)
	case facts.SecretsError != nil: // the bundle contains only a part of the Secrets and removals
		for _, name := range before {
			if !slices.Contains(facts.SealedRemovals, name) {
				known = append(known, name)
			}
		}
	}
	slices.Sort(known)
	return slices.Compact(known)
}
