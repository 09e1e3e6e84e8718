package rollout

import (
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// finalValuesWithin is the time after the end of a successful rollout during which the final values of its checks are
// copied to its status. The Kymas record these values at the end of the last wave.
const finalValuesWithin = 5 * time.Minute

// takesFinalValues reports whether the Kymas may still record the final values of a successful rollout's checks.
func takesFinalValues(r *fleet.Rollout, now time.Time) bool {
	s := &r.Status
	return s.State == fleet.RolloutSucceeded && s.FinishedAt != nil && now.Sub(s.FinishedAt.Time) < finalValuesWithin &&
		slices.ContainsFunc(s.Waves, func(w fleet.WaveStatus) bool { return len(w.Checks) > 0 })
}

// recordFinalValues copies the final values of the checks to the status of a successful rollout. The runtimes' Kymas
// recorded these values at the end of the last wave.
func (p *plan) recordFinalValues(runtimes []Runtime) {
	if len(p.status.Waves) != len(p.spec.Waves) || CheckCourse(p.spec.Course) != nil {
		return
	}
	p.assignRuntimes(runtimes)
	p.classify(runtimes)
	for i := range p.status.Waves {
		if checks := p.summarizeChecks(i, runtimes); checks != nil {
			p.status.Waves[i].Checks = checks
		}
	}
}
