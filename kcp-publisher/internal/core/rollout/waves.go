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
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

// maxGranted limits the number of selected runtimes that the status of one wave lists.
const maxGranted = 500

// RestWave is the name of the wave that completeCourse adds for runtimes that no other wave selects.
const RestWave = "rest"

// completeCourse returns the course (the waves and failure settings of a rollout) with one more wave at the end, for
// the runtimes that no other wave selects. This wave has the settings of the last wave in the course.
func completeCourse(course fleet.Course) fleet.Course {
	all := *course.DeepCopy()
	last := all.Waves[len(all.Waves)-1]
	if last.Percent != nil && *last.Percent == 100 {
		return all
	}
	rest := *last.DeepCopy()
	rest.Name = RestWave
	for i := 2; slices.ContainsFunc(all.Waves, func(w fleet.Wave) bool { return w.Name == rest.Name }); i++ {
		rest.Name = fmt.Sprintf("%s-%d", RestWave, i)
	}
	rest.Selector, rest.Count, rest.Percent, rest.MinReady = nil, nil, new(int32(100)), nil
	all.Waves = append(all.Waves, rest)
	return all
}

// CheckCourse returns an error if a course (the waves and failure settings of a rollout) is invalid in a way that the
// API server cannot detect with the CRD schema. The error contains the field.
func CheckCourse(course fleet.Course) error {
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
		if err := bundle.ValidateChecks(w.Checks, false); err != nil {
			return fmt.Errorf("waves[%d].%w", i, err)
		}
	}
	return nil
}

// hashPlace returns the position of a runtime. Waves with a percentage or a count select the runtimes in the order of
// their positions. The position is a hash of the policy and the runtime, so it is the same in all rollouts of a policy.
// The position has 52 bits, because JSON numbers can represent integers of this size exactly.
func hashPlace(policy, runtime string) int64 {
	sum := sha256.Sum256([]byte(policy + "\x00" + runtime))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 12)
}

func (p placeCache) get(policy, runtime string) int64 {
	if p == nil {
		return hashPlace(policy, runtime)
	}
	known := p[policy]
	if known == nil {
		known = map[string]int64{}
		p[policy] = known
	}
	at, is := known[runtime]
	if !is {
		at = hashPlace(policy, runtime)
		known[runtime] = at
	}
	return at
}

func (p *plan) parseWaves() {
	p.waves = make([]wave, len(p.spec.Waves))
	for i := range p.spec.Waves {
		for _, c := range p.spec.Waves[i].Checks {
			p.waves[i].checks = append(p.waves[i].checks, definedCheck{c, checks.DefinitionID(c)})
		}
		if s := p.spec.Waves[i].Selector; s != nil {
			// The error is always nil, because CheckCourse validated the selector.
			p.waves[i].selector, _ = metav1.LabelSelectorAsSelector(s)
		}
	}
}

// assignRuntimes assigns the runtimes to waves. A wave with a percentage or a count must not change during the rollout.
// Therefore, in the rollout's first step, assignRuntimes also writes the place of the wave's last runtime (see
// hashPlace) to the status.
func (p *plan) assignRuntimes(runtimes []Runtime) {
	p.parseWaves()
	p.members = make([]member, len(runtimes))
	for i := range runtimes {
		p.members[i].place = p.input.places.get(p.spec.Policy, runtimes[i].ID)
	}
	if len(p.status.Waves) != len(p.spec.Waves) {
		now := p.currentTime()
		p.status.StartedAt = &now
		p.status.Waves = make([]fleet.WaveStatus, len(p.spec.Waves))
		for i := range p.status.Waves {
			p.status.Waves[i] = fleet.WaveStatus{Name: p.spec.Waves[i].Name, State: fleet.WavePending}
		}
		p.fixPlaces(runtimes)
	}
	p.findWaves(runtimes)
}

func (p *plan) findWaves(runtimes []Runtime) {
	for i := range runtimes {
		p.members[i].wave = p.findWave(i, &runtimes[i])
	}
}

// checkWaves returns an error if an edit of a running rollout left a runtime without a wave, or a wave without a way to
// select runtimes.
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
			return fmt.Errorf("waves: no wave contains runtime %s: add a last wave with `percent: 100`", runtimes[i].ID)
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

// findWave returns the index of the first wave that selects a runtime, or -1 if no wave selects it.
func (p *plan) findWave(runtime int, r *Runtime) int {
	joinedLate := p.joinedRemovalLate(r)
	for i := range p.waves {
		if s := p.waves[i].selector; s != nil && s.Matches(labels.Set(r.Labels)) {
			return i
		}
		if s := &p.status.Waves[i]; s.All || !joinedLate && s.Place != nil && p.members[runtime].place <= *s.Place {
			return i
		}
	}
	return -1
}

func (w *wave) setBudgets(spec fleet.Wave) {
	scaled := func(v *intstr.IntOrString, of int, up bool, otherwise int) int {
		if v == nil {
			return otherwise
		}
		n, _ := intstr.GetScaledValueFromIntOrPercent(v, of, up) // cannot fail: CheckCourse validated the value
		return n
	}
	w.minReady = scaled(spec.MinReady, w.total-w.deferred, true, -1)
	w.maxFailures = scaled(spec.MaxFailures, w.total, false, defaultFailures(w.total))
	all := w.total + w.unaffected
	if w.failed+len(w.failedEarlier) <= scaled(spec.MaxFailures, all, false, defaultFailures(all)) {
		w.failedEarlier = nil
	}
	w.maxDeferred = scaled(spec.MaxDeferred, w.total, false, w.total/4)
	w.maxConcurrent = -1
	if spec.MaxConcurrent != nil {
		w.maxConcurrent = min(max(scaled(spec.MaxConcurrent, w.total, false, 0), 1), maxGranted)
	}
}

// defaultFailures returns the default value of maxFailures. It is 1 % of the wave's runtimes, and at least 1. It is 0
// for a wave with fewer than smallWave runtimes.
func defaultFailures(total int) int {
	if total < smallWave {
		return 0
	}
	return max(1, total/100)
}

// A wave with fewer than smallWave runtimes tolerates no failures by default.
const smallWave = 10

// unreadyReason returns the reason why a wave is not ready, or "" if it is ready.
func (w *wave) unreadyReason() string {
	need := w.minReady
	if need < 0 {
		need = w.total - w.deferred - w.failed
	}
	need = max(need, 1) // require one ready runtime, even if all others are deferred or failed
	if w.total == 0 {
		need = 0 // no runtime of the wave can get the version, so no runtime could meet minReady
	}
	if w.updated+w.measuring < need {
		return fmt.Sprintf("%d of %d runtimes are updated, %d are required", w.updated, w.total, need)
	}
	return ""
}

// notReadyReason returns the reason why a wave is not ready, or "". If the only reason is the number of deferred
// runtimes, it sets the state Waiting, because an operator can approve the wave.
func (p *plan) notReadyReason(number int) string {
	w, s := &p.waves[number], &p.status.Waves[number]
	why := cmp.Or(p.substitutesMessage(number), w.unreadyReason())
	switch areAllDeferred := w.total > 0 && w.deferred == w.total; {
	case areAllDeferred && p.isAccepted(number):
		return "" // an operator approved the wave although none of its runtimes is updated
	case areAllDeferred && !p.spec.Waves[number].Approval:
		return p.waitForDeferred(number, why+", and all of them "+deferredCauses)
	case why != "":
		return why
	case w.deferred <= w.maxDeferred || slices.Contains(p.spec.ApprovedDeferredWaves, s.Name):
		return ""
	}
	why = fmt.Sprintf("%d of %d runtimes %s, maxDeferred allows %d", w.deferred, w.total, deferredCauses, w.maxDeferred)
	if w.updated == 0 {
		return why
	}
	s.WaitsForDeferred = !p.spec.Paused
	return p.waitForDeferred(number, why)
}

const deferredCauses = "are offline, wait for their maintenance window or cannot get the version"

// waitForDeferred sets the state Waiting, unless the rollout is paused. It adds the command that approves the wave to
// the reason.
func (p *plan) waitForDeferred(number int, why string) string {
	if p.spec.Paused {
		return why
	}
	s := &p.status.Waves[number]
	s.State, p.status.State = fleet.WaveWaiting, fleet.RolloutWaiting
	return why + "; to continue without them, run kcp-publisher rollout approve " + p.name + " " + s.Name
}

// AwaitsApproval reports whether a wave waits for an approval that is not in the spec yet.
func AwaitsApproval(spec fleet.RolloutSpec, wave fleet.WaveStatus) bool {
	approved := spec.ApprovedWaves
	if wave.WaitsForDeferred {
		approved = spec.ApprovedDeferredWaves
	}
	return wave.State == fleet.WaveWaiting && !slices.Contains(approved, wave.Name)
}

// soakEnd returns the end of a wave's soak time. The soak time starts when the wave becomes ready, which is the
// parameter ready. For a wave without runtimes to update, it starts at workingSince.
func (p *plan) soakEnd(number int, ready time.Time) time.Time {
	if w := &p.waves[number]; w.total == 0 {
		ready = w.workingSince
		if p.input.IsProven {
			ready = time.Time{}
		}
	}
	return ready.Add(p.spec.Waves[number].Soak.Duration)
}

func (w *wave) progressMessage(unready string, soaking, last bool) string {
	text := unready
	if unready == "" && soaking {
		text = "soaking before the " + map[bool]string{true: "rollout ends", false: "next wave starts"}[last]
	}
	if len(w.unresolved) > 0 {
		text += "; the version cannot be resolved for " + joinListed(w.unresolved)
	}
	return text
}

// addUnresolved adds a runtime to the message about runtimes that cannot get the version because the publisher cannot
// resolve it.
func (w *wave) addUnresolved(r *Runtime) {
	w.unresolved = append(w.unresolved, r.ID+" ("+bundle.Bounded(r.Message, maxReasonBytes)+")")
}

func (w *wave) failureMessage(name string) string {
	return fmt.Sprintf("wave %s failed: %d of %d runtimes failed, maxFailures allows %d%s",
		name, w.failed, w.total, w.maxFailures, w.failedChecksMessage())
}
