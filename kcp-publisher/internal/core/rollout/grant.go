package rollout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// A postponed runtime still counts toward maxConcurrent for postponeDelay, because the publisher may already be pushing
// a bundle with the promoted version to it.
const postponeDelay = time.Minute

// grantSlots selects the next runtimes of the started waves, within maxConcurrent. Postponed runtimes come last.
func (p *plan) grantSlots(runtimes []Runtime) {
	forward := p.isActive() || p.status.State == fleet.RolloutSucceeded
	updated := 0
	for i := range p.waves {
		updated += p.waves[i].updated
	}
	open := p.hasOpenSlots(updated)
	for i := range p.waves {
		w, s := &p.waves[i], &p.status.Waves[i]
		before, postponed := s.Granted, s.Postponed
		s.Granted, s.Postponed = nil, nil
		if !forward || s.StartedAt == nil {
			continue
		}
		if w.maxConcurrent < 0 || p.status.State == fleet.RolloutSucceeded {
			for _, r := range w.reachable {
				p.members[r].isGranted = open
			}
			continue
		}
		slots := p.keepSlots(i, before, postponed, runtimes)
		free := w.maxConcurrent - w.countConcurrent() - slots.takenCount
		slices.SortFunc(w.reachable, func(a, b int) int {
			sinceA, sinceB := slots.postponedAt(runtimes[a].ID), slots.postponedAt(runtimes[b].ID)
			return cmp.Or(sinceA.Compare(sinceB), cmp.Compare(p.members[a].place, p.members[b].place))
		})
		for _, r := range w.reachable {
			if open && free > 0 && !p.members[r].isGranted && !slots.isSettling(runtimes[r].ID, p.input.Now) {
				p.members[r].isGranted = true
				free--
			}
		}
		for r := range p.members {
			if p.members[r].wave == i && p.members[r].isGranted {
				s.Granted = append(s.Granted, runtimes[r].ID)
			}
		}
		slices.Sort(s.Granted)
		s.Postponed = slots.postponedStatus()
	}
}

// hasOpenSlots reports whether the rollout may update more runtimes. updated is the number of runtimes that it has
// updated. hasOpenSlots returns false if the rollout is paused, or if it is waiting before its first update.
func (p *plan) hasOpenSlots(updated int) bool {
	return !p.spec.Paused && (updated > 0 || p.status.State != fleet.RolloutWaiting)
}

// waveSlots counts the runtimes of a wave that the rollout has selected but that do not have the version yet. These
// runtimes take slots of the wave's maxConcurrent.
type waveSlots struct {
	takenCount int
	// postponed maps the ID of each postponed runtime to the time at which it was postponed.
	postponed map[string]metav1.Time
}

// postponedAt returns the time at which a runtime was postponed. It returns zero if the runtime is not postponed.
func (s waveSlots) postponedAt(runtime string) time.Time { return s.postponed[runtime].Time }

// isSettling reports whether the publisher may still be pushing the bundle of a postponed runtime.
func (s waveSlots) isSettling(runtime string, now time.Time) bool {
	since, is := s.postponed[runtime]
	return is && now.Before(since.Add(postponeDelay))
}

func (s waveSlots) postponedStatus() []fleet.PostponedRuntime {
	var all []fleet.PostponedRuntime
	for _, id := range slices.Sorted(maps.Keys(s.postponed)) {
		all = append(all, fleet.PostponedRuntime{Runtime: id, Since: s.postponed[id]})
	}
	return all
}

// keepSlots keeps the selection of runtimes that have not received the version yet. granted contains the IDs of the
// runtimes that the previous step selected, and postponed those that it postponed. keepSlots postpones a runtime if the
// version cannot be resolved for it, or if the publisher could not publish to it for longer than offlineAfter.
func (p *plan) keepSlots(
	number int, granted []string, postponed []fleet.PostponedRuntime, runtimes []Runtime,
) waveSlots {
	kept := waveSlots{postponed: map[string]metav1.Time{}}
	if len(granted)+len(postponed) == 0 {
		return kept
	}
	had := make(map[string]bool, len(granted))
	for _, id := range granted {
		had[id] = true
	}
	earlier := make(map[string]metav1.Time, len(postponed))
	for _, before := range postponed {
		earlier[before.Runtime] = before.Since
	}
	for r := range p.members {
		if since, is := earlier[runtimes[r].ID]; is && p.members[r].awaitsVersion(number) {
			kept.postponed[runtimes[r].ID] = since
		}
	}
	for r := range p.members {
		m, id := &p.members[r], runtimes[r].ID
		if !m.awaitsVersion(number) {
			continue
		}
		recordable := len(kept.postponed) < maxGranted
		if had[id] && (m.state == unresolved || recordable && p.isStuck(&runtimes[r])) {
			had[id] = false
			if recordable {
				kept.postponed[id] = p.currentTime()
			}
		}
		if m.isGranted = had[id]; m.isGranted || kept.isSettling(id, p.input.Now) {
			kept.takenCount++
		}
	}
	return kept
}

// awaitsVersion reports whether a runtime belongs to a wave and does not have the version yet.
func (m *member) awaitsVersion(wave int) bool {
	return m.wave == wave && (m.state == waiting || m.state == silent || m.state == unresolved)
}

func (p *plan) isStuck(r *Runtime) bool {
	return r.Unpublishable && p.input.Now.Sub(r.UnpublishableSince) > p.spec.OfflineAfter.Duration
}
