package rollout

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// findSubstitutes counts the substitutes of each empty wave.
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

// lastPlaceBefore returns the place of the last runtime that the earlier waves with a percentage or a count selected.
func (p *plan) lastPlaceBefore(number int) int64 {
	last := int64(-1)
	for i := range number {
		if place := p.status.Waves[i].Place; place != nil {
			last = max(last, *place)
		}
	}
	return last
}

// selects reports whether a wave would select a runtime of an earlier wave. after is the result of lastPlaceBefore.
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

// isSoaked reports whether a runtime has had the promoted version for the soak time of its wave, and its latest report
// was read. A wave that was skipped because it was empty can get runtimes later, which have not soaked.
func (p *plan) isSoaked(m *member, r *Runtime) bool {
	since := p.startTime()
	if r.Selection != nil {
		since = r.Selection.Time.Time
	}
	return !p.input.Now.Before(since.Add(p.spec.Waves[m.wave].Soak.Duration)) && !p.isReportUnread(r)
}

// isUnshownWave reports whether a wave is empty and shows nothing about the version. A wave that lost its runtimes or
// never had any does not prove the version. isUnshownWave returns false if the wave's substitutes have shown that the
// version works, if an operator continued without the wave, if an earlier rollout proved the version, or if no runtime
// waits for a later wave.
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

// emptyMessage returns a message if a wave is empty and only an operator can continue. Otherwise, it returns "".
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
