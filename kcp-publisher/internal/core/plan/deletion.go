package plan

import (
	"fmt"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// FinalizeReasonUnnotified returns the reason for removing the finalizer of a deleted Kyma if the publisher could not
// publish the runtime's last bundle. It returns a reason only if a label on the Kyma declares that the runtime's
// cluster no longer exists.
func FinalizeReasonUnnotified(kyma *v1beta2.Kyma) (reason, message string) {
	if !isMarkedGone(kyma) {
		return "", ""
	}
	return v1beta2.ReasonRuntimeGone,
		fmt.Sprintf("label %s declares that the cluster of runtime %s no longer exists", v1beta2.LabelRuntimeGone,
			RuntimeID(kyma))
}

func isMarkedGone(kyma *v1beta2.Kyma) bool {
	return kyma.Labels[v1beta2.LabelRuntimeGone] == v1beta2.True
}

// FinalizeReasonRefused returns the reason for removing the finalizer of a deleted Kyma if the publisher refuses to
// publish bundles for the Kyma. cause is the reason for the refusal.
func FinalizeReasonRefused(
	kyma *v1beta2.Kyma, cause error, timeout time.Duration, now time.Time,
) (event, message string) {
	const left = "no bundle can be published for the Kyma, so its runtime keeps its modules"
	switch s := kyma.Status.Runtime; {
	case reason.Of(cause) == reason.RuntimeHandedOver:
		return v1beta2.ReasonHandedOver,
			fmt.Sprintf("runtime %s belongs to another Kyma or control plane and keeps its modules", RuntimeID(kyma))
	case s == nil || s.Published == nil:
		return v1beta2.ReasonNothingToRemove, "no bundle was ever published for the Kyma"
	case isMarkedGone(kyma):
		return FinalizeReasonUnnotified(kyma)
	case kyma.Labels[v1beta2.LabelForceDeletion] == v1beta2.True:
		return v1beta2.ReasonDeletionForced, left
	case s.Observed == nil:
		return v1beta2.ReasonRuntimeNeverReported, neverReportedMessage(kyma)
	case now.Sub(kyma.DeletionTimestamp.Time) > timeout:
		return v1beta2.ReasonDeletionTimeout, left
	}
	return "", ""
}

func neverReportedMessage(kyma *v1beta2.Kyma) string {
	return fmt.Sprintf("runtime %s never reported, so the deletion does not wait for a report", RuntimeID(kyma))
}

// FinalizeReason returns the reason for removing the finalizer of a deleted Kyma. An empty reason means that the Kyma
// must keep the finalizer for now.
func FinalizeReason(
	kyma *v1beta2.Kyma, published PublishedBundle, report *bundle.AcceptedReport, timeout time.Duration, now time.Time,
) (reason, message string) {
	runtime := RuntimeID(kyma)
	if !published.Predicate.Deleting {
		return FinalizeReasonUnnotified(kyma)
	}
	began := kyma.DeletionTimestamp.Time
	if issued := published.Predicate.IssuedAt; issued.After(began) {
		began = issued // the runtime cannot learn about the deletion before the bundle was created
	}
	switch waited := now.Sub(began); {
	case report != nil && report.HasApplied(published.Digest) && published.Predicate.Deleting &&
		len(report.Modules) == 0 && !report.OmitsModules() && report.Kyma == nil:
		return v1beta2.ReasonRuntimeEmpty, fmt.Sprintf("runtime %s has removed all modules", runtime)
	case isMarkedGone(kyma):
		return FinalizeReasonUnnotified(kyma)
	case kyma.Labels[v1beta2.LabelForceDeletion] == v1beta2.True:
		return v1beta2.ReasonDeletionForced,
			fmt.Sprintf(
				"the deletion did not wait for runtime %s: its agent removes all modules when it reads the last bundle",
				runtime)
	case kyma.Status.Runtime == nil || kyma.Status.Runtime.Observed == nil:
		return v1beta2.ReasonRuntimeNeverReported, neverReportedMessage(kyma)
	case waited > timeout:
		return v1beta2.ReasonDeletionTimeout, fmt.Sprintf(
			"runtime %s did not report an empty state within %s: its agent removes all modules when it reads the last "+
				"bundle",
			runtime,
			timeout,
		)
	}
	return "", ""
}
