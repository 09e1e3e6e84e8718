package rollout

import (
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// finalValuesWithin is the time after the end of a successful rollout in which its status still takes over the values
// that the Kymas of the last wave record at the end of the wave.
const finalValuesWithin = 5 * time.Minute

// takesFinalValues reports whether the Kymas may still record the final values of the checks of a successful rollout.
func takesFinalValues(r *fleet.Rollout, now time.Time) bool {
	s := &r.Status
	return s.State == fleet.RolloutSucceeded && s.FinishedAt != nil && now.Sub(s.FinishedAt.Time) < finalValuesWithin &&
		slices.ContainsFunc(s.Waves, func(w fleet.WaveStatus) bool { return len(w.Checks) > 0 })
}

// recordFinalValues writes the values that the runtimes' Kymas recorded at the end of the last wave to the status of a
// successful rollout.
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
