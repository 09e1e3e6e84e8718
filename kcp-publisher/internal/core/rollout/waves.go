package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// maxGranted limits the number of runtime IDs in one wave's status.
const maxGranted = 500

// Rest is the name of the added wave for runtimes that no other wave selects.
const Rest = "rest"

// Complete returns the course with an additional last wave for the runtimes that no other wave selects. The wave copies
// the previous wave's settings.
func Complete(course fleet.Course) fleet.Course {
	all := *course.DeepCopy()
	last := all.Waves[len(all.Waves)-1]
	if last.Percent != nil && *last.Percent == 100 {
		return all
	}
	rest := *last.DeepCopy()
	rest.Name = Rest
	for i := 2; slices.ContainsFunc(all.Waves, func(w fleet.Wave) bool { return w.Name == rest.Name }); i++ {
		rest.Name = fmt.Sprintf("%s-%d", Rest, i)
	}
	rest.Selector, rest.Count, rest.Percent, rest.MinReady = nil, nil, new(int32(100)), nil
	all.Waves = append(all.Waves, rest)
	return all
}

// Check validates a course beyond the schema of the API server. The error names the field.
func Check(course fleet.Course) error {
	names := map[string]bool{}
	for i, w := range course.Waves {
		if names[w.Name] {
			return fmt.Errorf("waves[%d].name: %q appears twice", i, w.Name)
		}
		names[w.Name] = true
		if _, err := metav1.LabelSelectorAsSelector(w.Selector); err != nil {
			return fmt.Errorf("waves[%d].selector: %w", i, err)
		}
		for _, bound := range []struct {
			field string
			value *intstr.IntOrString
		}{{"maxConcurrent", w.MaxConcurrent}, {"minReady", w.MinReady}, {"maxFailures", w.MaxFailures},
			{"maxDeferred", w.MaxDeferred}} {
			if bound.value == nil {
				continue
			}
			if n, err := intstr.GetScaledValueFromIntOrPercent(bound.value, 100, true); err != nil || n < 0 {
				return fmt.Errorf("waves[%d].%s: %q is not a number or a percentage such as \"10%%\"", i,
					bound.field, bound.value.String())
			}
		}
		if err := bundle.CheckChecks(w.Checks, false); err != nil {
			return fmt.Errorf("waves[%d].%w", i, err)
		}
	}
	return nil
}

// place returns a runtime's position in the order in which waves select runtimes. It is a hash, so it is the same in
// all rollouts of a policy. It has 52 bits, so JSON represents it exactly.
func place(policy, runtime string) int64 {
	sum := sha256.Sum256([]byte(policy + "\x00" + runtime))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 12)
}

// places caches the results of place, by policy and runtime.
type places map[string]map[string]int64

func (p places) of(policy, runtime string) int64 {
	if p == nil {
		return place(policy, runtime)
	}
	known := p[policy]
	if known == nil {
		known = map[string]int64{}
		p[policy] = known
	}
	at, is := known[runtime]
	if !is {
		at = place(policy, runtime)
		known[runtime] = at
	}
	return at
}

// wave counts a wave's runtimes by state.
type wave struct {
	selector labels.Selector // nil for a wave by percent or count
	// unmatched is true if the selector matches no runtime.
	unmatched bool
	// total is the number of the wave's runtimes without the unaffected ones. The other fields count runtimes by state.
	total, updated, inFlight, failed, deferred int
	// fresh counts the runtimes without the module.
	fresh int
	// unaffected counts runtimes that have the promoted or a newer version, but not from this rollout. working counts
	// the unaffected runtimes in which the promoted version works.
	unaffected, working int
	// workingSince is the latest time at which one of the working runtimes was updated, or zero.
	workingSince time.Time
	// unread counts the updated runtimes whose reports this publisher has not read since its start.
	unread int
	// unchecked describes the runtimes whose checks did not pass. measuring counts the ready runtimes whose checks are
	// measured. outdated counts the runtimes whose agents do not support checks. overdue counts the measuring runtimes
	// after their time for measurements.
	unchecked                    []string
	measuring, outdated, overdue int
	// broken lists the runtimes with failed checks.
	broken []brokenCheck
	// unresolved describes the runtimes that cannot get the version, because it cannot be resolved for them. They are
	// part of deferred.
	unresolved []string
	// reachable are the indexes of the runtimes that wait for the version and are not silent.
	reachable []int

	minReady, maxFailures, maxDeferred, maxConcurrent int // minReady and maxConcurrent are -1 if they are not set
}

func (p *plan) selectors() {
	p.waves = make([]wave, len(p.spec.Waves))
	for i := range p.spec.Waves {
		if s := p.spec.Waves[i].Selector; s != nil {
			p.waves[i].selector, _ = metav1.LabelSelectorAsSelector(s) // Check validated the selector
		}
	}
}

// empty reports whether a wave's selector matches no runtime although the policy does not allow that.
func (p *plan) empty(number int) bool {
	if !p.waves[number].unmatched || p.spec.Waves[number].AllowEmpty || p.situation.Proven {
		return false
	}
	return slices.ContainsFunc(p.waves[number+1:], func(later wave) bool { return later.total > 0 })
}

func (w *wave) matches(runtimes []Runtime) bool {
	return slices.ContainsFunc(runtimes, func(r Runtime) bool { return w.selector.Matches(labels.Set(r.Labels)) })
}

// The first call records the last place of each wave with a percent or count, because the wave must not change during
// the rollout.
func (p *plan) begin(runtimes []Runtime) {
	p.selectors()
	p.members = make([]member, len(runtimes))
	for i := range runtimes {
		p.members[i].place = p.situation.places.of(p.spec.Policy, runtimes[i].ID)
	}
	if len(p.status.Waves) != len(p.spec.Waves) {
		now := p.stamp()
		p.status.StartedAt = &now
		p.status.Waves = make([]fleet.WaveStatus, len(p.spec.Waves))
		for i := range p.status.Waves {
			p.status.Waves[i] = fleet.WaveStatus{Name: p.spec.Waves[i].Name, State: fleet.WavePending}
		}
		p.fixPlaces(runtimes)
	}
	for i := range runtimes {
		p.members[i].wave = p.waveOf(i, runtimes[i].Labels)
	}
}

// checkWaves returns an error if an edit after the start left runtimes or a wave without an assignment.
func (p *plan) checkWaves(runtimes []Runtime) error {
	for i, w := range p.spec.Waves {
		if p.status.Waves[i].All {
			break
		}
		if w.Selector == nil && p.status.Waves[i].Place == nil {
			return fmt.Errorf("waves[%d]: the wave %s had a selector when the rollout began: set a selector again, or "+
				"abort and retry the rollout", i, w.Name)
		}
	}
	for i := range p.members {
		if p.members[i].wave < 0 {
			return fmt.Errorf("waves: no wave contains runtime %s: add a last wave with percent: 100", runtimes[i].ID)
		}
	}
	return nil
}

func (p *plan) fixPlaces(runtimes []Runtime) {
	left := make([]int, len(runtimes))
	for i := range left {
		left[i] = i
	}
	slices.SortFunc(left, func(a, b int) int { return cmp.Compare(p.members[a].place, p.members[b].place) })
	for i, w := range p.spec.Waves {
		if w.Selector != nil {
			left = slices.DeleteFunc(left, func(r int) bool {
				return p.waves[i].selector.Matches(labels.Set(runtimes[r].Labels))
			})
			continue
		}
		take := 0
		switch {
		case w.Percent != nil && *w.Percent == 100:
			p.status.Waves[i].All = true
			return
		case w.Percent != nil:
			take = (len(runtimes)*int(*w.Percent) + 99) / 100
		case w.Count != nil:
			take = int(*w.Count)
		}
		take = min(take, len(left))
		reach := int64(-1)
		if take > 0 {
			reach = p.members[left[take-1]].place
		}
		p.status.Waves[i].Place, left = &reach, left[take:]
	}
}

// waveOf returns the index of the first wave that selects a runtime, or -1.
func (p *plan) waveOf(runtime int, own labels.Set) int {
	for i := range p.waves {
		if s := p.waves[i].selector; s != nil && s.Matches(own) {
			return i
		}
		if s := &p.status.Waves[i]; s.All || s.Place != nil && p.members[runtime].place <= *s.Place {
			return i
		}
	}
	return -1
}

func (w *wave) budgets(spec fleet.Wave) {
	scaled := func(v *intstr.IntOrString, of int, up bool, otherwise int) int {
		if v == nil {
			return otherwise
		}
		n, _ := intstr.GetScaledValueFromIntOrPercent(v, of, up) // Check validated the value
		return n
	}
	w.minReady = scaled(spec.MinReady, w.total-w.deferred, true, -1)
	w.maxFailures = scaled(spec.MaxFailures, w.total, false, defaultFailures(w.total))
	w.maxDeferred = scaled(spec.MaxDeferred, w.total, false, w.total/4)
	w.maxConcurrent = -1
	if spec.MaxConcurrent != nil {
		w.maxConcurrent = min(max(scaled(spec.MaxConcurrent, w.total, false, 0), 1), maxGranted)
	}
}

// defaultFailures returns the default of maxFailures: 1 %, but at least 1 in a wave of ten or more runtimes. A smaller
// wave tolerates no failure.
func defaultFailures(total int) int {
	if total < smallWave {
		return 0
	}
	return max(1, total/100)
}

// smallWave is the minimum number of runtimes in a wave that tolerates failures by default.
const smallWave = 10

// unready returns the reason why a wave is not ready, or "".
func (w *wave) unready() string {
	need := w.minReady
	if need < 0 {
		need = w.total - w.deferred - w.failed
	}
	if w.total > 0 {
		need = max(need, 1) // at least one runtime must be ready, even if all others are silent or failed
	}
	switch {
	case w.updated+w.measuring < need:
		return fmt.Sprintf("%d of %d runtimes are updated, %d are required", w.updated, w.total, need)
	case w.deferred > w.maxDeferred:
		return fmt.Sprintf("%d of %d runtimes are offline, wait for their maintenance window or cannot get the version, "+
			"maxDeferred allows %d", w.deferred, w.total, w.maxDeferred)
	}
	return ""
}

// soakedAt returns the end of the soak time of a wave that became ready at this time. A wave without runtimes to update
// soaks from the last time at which one of its runtimes was updated.
func (p *plan) soakedAt(number int, ready time.Time) time.Time {
	if w := &p.waves[number]; w.total == 0 {
		ready = w.workingSince
		if p.situation.Proven {
			ready = time.Time{}
		}
	}
	return ready.Add(p.spec.Waves[number].Soak.Duration)
}

func (w *wave) progressMessage(unready string, soaking bool) string {
	text := unready
	if unready == "" && soaking {
		text = "soaking before the next wave starts"
	}
	if len(w.unresolved) > 0 {
		text += "; the version cannot be resolved for " + listed(w.unresolved)
	}
	return text
}

// addUnresolved records a runtime that cannot get the version, because it cannot be resolved.
func (w *wave) addUnresolved(r *Runtime) {
	w.unresolved = append(w.unresolved, r.ID+" ("+bundle.Bounded(r.Message, maxReasonBytes)+")")
}

// unreadMessage returns a message about reports that this publisher must read first, or "".
func (w *wave) unreadMessage() string {
	if w.unread == 0 {
		return ""
	}
	return fmt.Sprintf("the reports of %d updated runtimes have not been read yet", w.unread)
}

func (w *wave) failure(name string) string {
	return fmt.Sprintf("wave %s failed: %d of %d runtimes failed, maxFailures allows %d%s",
		name, w.failed, w.total, w.maxFailures, w.brokenChecks())
}
