package rollout

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// findSubstitutes counts the substitutes of each empty wave: the runtimes of earlier waves that the empty wave would
// select, too.
func (p *plan) findSubstitutes(runtimes []Runtime) {
	for number := range p.waves {
		w := &p.waves[number]
		if w.total+w.unaffected > 0 {
			continue
		}
		after := p.lastPlaceBefore(number)
		for i := range p.members {
			m := &p.members[i]
			if m.wave < 0 || m.wave >= number || !p.selects(number, after, m.place, runtimes[i].Labels) {
				continue
			}
			w.substitutes.total++
			works := m.state == updated || m.isWorking
			switch {
			case works && p.isSoaked(m, &runtimes[i]):
				w.substitutes.shown++
			case works, m.state == waiting, m.state == inFlight, m.state == measuring:
				w.substitutes.pending++
			}
		}
	}
}

// lastPlaceBefore returns the highest place (see hashPlace) that the earlier waves with a percentage or a count select.
// It returns -1 if no earlier wave has a percentage or a count.
func (p *plan) lastPlaceBefore(number int) int64 {
	last := int64(-1)
	for i := range number {
		if place := p.status.Waves[i].Place; place != nil {
			last = max(last, *place)
		}
	}
	return last
}

// selects reports whether a wave would select a runtime of an earlier wave. lastPlaceBefore returns the value for
// the parameter after.
func (p *plan) selects(number int, after, place int64, own labels.Set) bool {
	if s := p.waves[number].selector; s != nil {
		return s.Matches(own)
	}
	last := p.status.Waves[number].Place
	if last == nil {
		return p.status.Waves[number].All
	}
	// If earlier waves contained all runtimes when the rollout started, any of them can show that the version works.
	return *last < 0 || after < place && place <= *last
}

// isSoaked reports whether a runtime has had the promoted version for the soak time of its wave, and the publisher has
// read its latest report. The runtimes of a proven wave might not have soaked: an empty wave can be skipped and get
// runtimes later.
func (p *plan) isSoaked(m *member, r *Runtime) bool {
	since := p.startTime()
	if r.Selection != nil {
		since = r.Selection.Time.Time
	}
	return !p.input.Now.Before(since.Add(p.spec.Waves[m.wave].Soak.Duration)) && !p.isReportUnread(r)
}

// isUnshownWave reports whether a wave is empty and therefore does not prove the version. It returns false in these
// cases:
//   - The wave's substitutes have shown that the version works, or an earlier rollout proved it.
//   - An operator continued without the wave.
//   - No runtime waits for a later wave.
func (p *plan) isUnshownWave(number int) bool {
	w := &p.waves[number]
	if w.total+w.unaffected > 0 || w.substitutes.shown > 0 {
		return false
	}
	if p.spec.Waves[number].AllowEmpty || p.input.IsProven || p.isAccepted(number) {
		return false
	}
	return slices.ContainsFunc(p.waves[number+1:], func(later wave) bool { return later.total > 0 })
}

// emptyMessage returns a message if a wave is empty and the rollout cannot continue without an operator. Otherwise, it
// returns "".
func (p *plan) emptyMessage(number int) string {
	w := &p.waves[number]
	if !p.isUnshownWave(number) || w.substitutes.pending > 0 {
		return ""
	}
	instead := "approve the wave"
	if p.spec.Waves[number].Approval {
		// An approval to start the wave does not allow the rollout to skip the empty wave.
		instead = "set allowEmpty for the wave in spec.waves"
	}
	switch {
	case w.selector == nil:
		return "has no runtime left: " + instead
	case w.substitutes.total > 0:
		return "selects only runtimes from earlier waves, and none of them shows that " + p.subject() +
			" works: label other runtimes, or " + instead
	}
	return "selects no runtime: label runtimes, correct the selector in spec.waves, or " + instead
}

// substitutesMessage returns a message if a wave is empty and waits for runtimes of earlier waves. Otherwise, it
// returns "".
func (p *plan) substitutesMessage(number int) string {
	if !p.isUnshownWave(number) || p.waves[number].substitutes.pending == 0 {
		return ""
	}
	return "waits until a runtime from an earlier wave shows that " + p.subject() + " works"
}
