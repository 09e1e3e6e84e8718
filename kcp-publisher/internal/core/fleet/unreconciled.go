package fleet

import (
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// isUnreconciled reports whether the runtime needs attention because no publisher reconciles its Kyma, for example
// because the Kyma matches no publisher's label selector.
func (r Runtime) isUnreconciled() bool {
	return r.Health.NeedsAttention() && r.Cause != nil &&
		(r.Cause.Situation == NotLookedAt || r.Cause.Situation == PublisherAbsent)
}

// CountUnreconciled counts the Kymas' runtimes that no publisher reconciles. It adds the number for each Health to
// counts.
func CountUnreconciled(counts map[Health]int, kymas []v1beta2.Kyma, now time.Time) {
	for i := range kymas {
		if r := Judge(&kymas[i], Rollouts{}, now); r.isUnreconciled() {
			counts[r.Health]++
		}
	}
}
