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

// CountUnreconciled adds the unreconciled runtimes of the Kymas to counts, by health.
func CountUnreconciled(counts map[Health]int, kymas []v1beta2.Kyma, now time.Time) {
	for i := range kymas {
		if r := Judge(&kymas[i], Rollouts{}, now); r.isUnreconciled() {
			counts[r.Health]++
		}
	}
}
