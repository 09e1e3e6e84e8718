package plan

import (
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// IsResting reports whether the runtime has applied the latest bundle and all its modules are ready, so that no work is
// pending.
func IsResting(kyma *v1beta2.Kyma) bool {
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
