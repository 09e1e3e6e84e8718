package plan

import (
	"fmt"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// Why a deleted Kyma is finalized, as reasons of Events.
const (
	ReasonRuntimeEmpty    = "RuntimeEmpty"
	ReasonDeletionForced  = "DeletionForced"
	ReasonNeverReported   = "RuntimeNeverReported"
	ReasonDeletionTimeout = "DeletionTimeout"
)

// Finalizable decides whether a deleted Kyma may go, and why; an empty reason means that it has to wait.
func Finalizable(kyma *v1beta2.Kyma, published Published, report *bundle.AcceptedReport, timeout time.Duration, now time.Time) (reason, message string) {
	runtime := RuntimeID(kyma)
	switch waited := now.Sub(kyma.DeletionTimestamp.Time); {
	case report != nil && report.Observed != nil && report.Observed.Digest == published.Digest && published.Predicate.Deleting &&
		len(report.Modules) == 0 && !report.LeavesModulesOut() && report.Kyma == nil:
		return ReasonRuntimeEmpty, fmt.Sprintf("runtime %s has removed all modules", runtime)
	case kyma.Labels[v1beta2.LabelForceDeletion] == v1beta2.True:
		return ReasonDeletionForced, fmt.Sprintf("runtime %s was not waited for: its last bundle tells it to remove all modules whenever it looks", runtime)
	case kyma.Status.Runtime == nil || kyma.Status.Runtime.Observed == nil:
		return ReasonNeverReported, fmt.Sprintf("runtime %s never reported, so that there is nobody to wait for", runtime)
	case waited > timeout:
		return ReasonDeletionTimeout, fmt.Sprintf("runtime %s did not report to be empty within %s: its last bundle tells it to remove all modules whenever it looks", runtime, timeout)
	}
	return "", ""
}
