package plan

import (
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Resting reports whether a Kyma's runtime has no pending work: it has applied the latest bundle, and its modules are
// ready.
func Resting(kyma *v1beta2.Kyma) bool {
	status := kyma.Status.Runtime
	if !kyma.DeletionTimestamp.IsZero() || kyma.Status.State != v1beta2.StateReady || status == nil ||
		status.Published == nil || status.Observed == nil {
		return false
	}
	if status.Published.Digest == "" || status.Observed.Digest != status.Published.Digest {
		return false
	}
	return status.Takeover == nil || status.Takeover.Done == status.Takeover.Published
}
