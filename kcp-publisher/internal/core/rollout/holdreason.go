package rollout

import (
	"fmt"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// holdReasons contains the reasons why a rollout delays the promoted version in a runtime. The texts do not contain the
// rollout's progress, so that they rarely change.
type holdReasons struct {
	// selected is the reason for runtimes that the rollout updated before it was rolled back. It is empty if the
	// rollout was not rolled back.
	selected string
	// waves contains the reasons for all other runtimes. The first reason applies to runtimes that no wave selects. The
	// other reasons follow in the order of the waves.
	waves []string
}

// noWave replaces the index of the wave for a runtime that no wave selects.
const noWave = -1

func (p *plan) holdReasons() (r holdReasons) {
	text := fmt.Sprintf("rollout %s holds %s", p.name, p.promoted())
	if p.isRollingBack() {
		r.selected = fmt.Sprintf("rollout %s rolled %s back", p.name, p.promoted())
		text = fmt.Sprintf("rollout %s was rolled back: no more runtimes get %s", p.name, p.promoted())
		if IsRemoval(p.spec) {
			text = fmt.Sprintf("rollout %s was rolled back: no more runtimes lose the module", p.name)
		}
	}
	if p.status.State == fleet.RolloutStopped {
		text += ": the rollout was stopped"
	}
	r.waves = append(r.waves, text)
	for i := range p.spec.Waves {
		reason := text
		if p.isActive() {
			reason += ": wave " + p.spec.Waves[i].Name
		}
		r.waves = append(r.waves, reason)
	}
	return r
}

// find returns the reason for a runtime. isSelected is true if the rollout selected the runtime's version.
func (r holdReasons) find(wave int, isSelected bool) string {
	if isSelected && r.selected != "" {
		return r.selected
	}
	return r.waves[wave-noWave]
}
