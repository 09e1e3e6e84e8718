package rollout

import (
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// finalValuesWithin is the time after the end of a successful rollout in which its status still takes over the values
// that the Kymas of the last wave record at the end of the wave.
const finalValuesWithin = 5 * time.Minute

// endedWaves returns true for each wave with checks that was proven or has failed.
func endedWaves(status fleet.RolloutStatus) []bool {
	ended := make([]bool, len(status.Waves))
	for i, w := range status.Waves {
		ended[i] = len(w.Checks) > 0 && (w.ProvenAt != nil || w.State == fleet.WaveFailed)
	}
	return ended
}

func (g *Gate) isWaveEnded(d Decision) bool {
	return d.Checks > 0 && d.Checks <= len(g.endedWaves) && g.endedWaves[d.Checks-1]
}

// HasWaveEnded reports whether the wave has ended in which a rollout gave a version of a track to a runtime.
func (g Gates) HasWaveEnded(track Track, runtime string, given v1beta2.GivenVersion, version string) bool {
	gate := g[track]
	if gate == nil || gate.rollout != given.Rollout || gate.to != version {
		return false
	}
	d, _ := gate.findDecision(runtime)
	return gate.isOpen || gate.isWaveEnded(d)
}

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
