package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout/readings"
)

// Agents run a wave's checks for at least minCheckFor.
const minCheckFor = 10 * time.Minute

// A message about checks lists at most maxListed runtimes.
const maxListed = 5

// WaveChecks contains a wave's checks and how long agents run them. The publisher adds the checks to the module's
// manifest.
type WaveChecks struct {
	// Checks are sorted by name.
	Checks   []fleet.Check
	Duration metav1.Duration
}

func checksByWave(course fleet.Course) []WaveChecks {
	all := make([]WaveChecks, len(course.Waves))
	for i, w := range course.Waves {
		if len(w.Checks) > 0 {
			all[i] = WaveChecks{Checks: slices.Clone(w.Checks), Duration: metav1.Duration{Duration: checkFor(w)}}
			slices.SortFunc(all[i].Checks, func(a, b fleet.Check) int { return cmp.Compare(a.Name, b.Name) })
		}
	}
	return all
}

// checkFor returns how long agents run a wave's checks.
func checkFor(w fleet.Wave) time.Duration {
	return min(max(w.Deadline.Duration+w.Soak.Duration, minCheckFor), bundle.MaxCheckFor)
}

func (p *plan) memberChecks(m *member) []definedCheck {
	if m.wave < 0 {
		return nil
	}
	return p.waves[m.wave].checks
}

func (p *plan) isWaitingForAgent(m *member, r *Runtime) bool {
	return r.LacksChecks && len(p.memberChecks(m)) > 0 && !p.isAccepted(m.wave)
}

// worksInRuntime reports whether the promoted version works in a runtime that this rollout did not update: the runtime
// has the version, the module is ready, and all checks of the runtime's wave have passed.
func (p *plan) worksInRuntime(m *member, r *Runtime) bool {
	works := r.wasReady() && !p.hasSymptom(m, r) && p.findFailedCheck(m, r) == nil && p.unpassedMessage(m, r) == ""
	return r.Version == p.spec.To && works
}

// checkOutcome returns the runtime's result of a check, or nil. The result of an edited check is nil until the runtime
// has reported a result of the new definition.
func (r *Runtime) checkOutcome(c definedCheck) *v1beta2.CheckOutcome {
	if r.Selection == nil {
		return nil
	}
	for i, o := range r.Selection.Checks {
		if o.Name == c.Name && o.Definition == c.definition {
			return &r.Selection.Checks[i]
		}
	}
	return nil
}

func (p *plan) findFailedCheck(m *member, r *Runtime) *v1beta2.CheckOutcome {
	for _, c := range p.memberChecks(m) {
		if o := r.checkOutcome(c); o != nil && o.Result == v1beta2.CheckFailed {
			return o
		}
	}
	return nil
}

// unpassedMessage returns a message about the checks that did not pass in a runtime. It returns "" if all passed, or if
// an operator approved the wave regardless of its checks.
func (p *plan) unpassedMessage(m *member, r *Runtime) string {
	if p.isAccepted(m.wave) {
		return ""
	}
	var texts []string
	for _, c := range p.memberChecks(m) {
		switch o := r.checkOutcome(c); {
		case o == nil:
			texts = append(texts, "check "+c.Name+" has no result")
		case o.Result != v1beta2.CheckPassed:
			texts = append(texts, DescribeCheck(*o))
		}
	}
	return bundle.Bounded(strings.Join(texts, ", "), maxReasonBytes)
}

func (p *plan) isMeasured(m *member, r *Runtime) bool {
	return p.input.Now.After(r.Selection.Began().Add(checkFor(p.spec.Waves[m.wave])))
}

// hasSymptom reports whether the runtime's last report is about the newest bundle and shows a symptom that the wave's
// failsOn lists.
func (p *plan) hasSymptom(m *member, r *Runtime) bool {
	symptom := stateSymptom(r.State)
	return r.IsCurrent && symptom != "" && p.failsOn(m.wave, symptom)
}

func stateSymptom(state v1beta2.State) fleet.Symptom {
	switch state {
	case v1beta2.StateError:
		return fleet.SymptomError
	case v1beta2.StateWarning:
		return fleet.SymptomWarning
	}
	return ""
}

func (p *plan) failsOn(wave int, symptom fleet.Symptom) bool {
	return wave >= 0 && slices.Contains(p.spec.Waves[wave].FailsOn, symptom)
}

// countMeasuring counts a runtime whose module is ready but whose checks have not all passed. isOver is true if the
// runtime's agent has run the checks for the configured time.
func (w *wave) countMeasuring(r *Runtime, m *member, isOver bool) {
	w.measuring++
	w.unchecked = append(w.unchecked, r.ID+" ("+m.uncheckedMessage+")")
	if isOver {
		w.overdue++
	}
}

// unprovenMessage returns a message about the wave's runtimes that failed in another rollout, and about those whose
// checks have not passed. It returns "" if the wave has no such runtimes.
func (w *wave) unprovenMessage() string {
	var texts []string
	if len(w.failedEarlier) > 0 {
		texts = append(texts, "the version already failed in "+joinListed(w.failedEarlier))
	}
	if len(w.unchecked) > 0 {
		texts = append(texts, "checks are not Passed in "+joinListed(w.unchecked))
	}
	return strings.Join(texts, ", ")
}

// unreadMessage returns a message if this publisher must first read the reports of some runtimes with the promoted
// version. Otherwise, it returns "".
func (w *wave) unreadMessage() string {
	if w.unreadCount == 0 {
		return ""
	}
	return fmt.Sprintf("the reports of %d runtimes with the version have not been read yet", w.unreadCount)
}

// isProvenWithout reports whether the wave can continue without the runtimes whose checks did not pass in time or whose
// agents do not support checks. This requires enough updated runtimes for minReady. Without this exception, a single
// runtime could stop the rollout for all.
func (w *wave) isProvenWithout() bool {
	return w.minReady >= 0 && w.updated >= max(w.minReady, 1) && w.measuring == w.overdue && len(w.failedEarlier) == 0
}

// countConcurrent returns the number of runtimes that count toward maxConcurrent. If the wave sets minReady,
// countConcurrent omits runtimes whose checks did not pass in time, unless minReady cannot be reached without them.
func (w *wave) countConcurrent() int {
	if w.minReady < 0 {
		return w.inFlight
	}
	return w.inFlight - min(w.overdue, max(0, w.total-w.deferred-w.failed-w.minReady))
}

// isStalled reports whether the wave can make no progress because the only pending runtimes wait for checks that have
// not passed in time, or because runtimes already failed in another rollout.
func (w *wave) isStalled() bool {
	if w.isProvenWithout() {
		return false
	}
	full := w.maxConcurrent >= 0 && w.countConcurrent() >= w.maxConcurrent
	return w.overdue+w.outdated+len(w.failedEarlier) > 0 && w.inFlight == w.overdue && (len(w.reachable) == 0 || full)
}

// unprovenReason returns the reason why the runtimes of a wave have not proved the version yet, or "". unready is the
// reason why the wave is not ready. soaked is true after the soak time. If the wave is stalled, unprovenReason sets its
// state to Waiting.
func (p *plan) unprovenReason(number int, unready string, soaked bool) string {
	w := &p.waves[number]
	switch {
	case w.isStalled() && !p.spec.Paused:
		s := &p.status.Waves[number]
		s.State, s.WaitsForDeferred, p.status.State = fleet.WaveWaiting, false, fleet.RolloutWaiting
		instead := "approve the wave"
		if p.spec.Waves[number].Approval {
			// An approval to start the wave does not accept failed checks, so approving again has no effect.
			instead = "remove the check"
			if len(p.waves[number].failedEarlier) > 0 {
				instead = "increase maxFailures in spec.waves"
			}
		}
		return "waits: " + w.unprovenMessage() + "; correct the cause, or " + instead
	case unready == "" && soaked:
		if why := w.unreadMessage(); why != "" || w.isProvenWithout() {
			return why
		}
		return w.unprovenMessage()
	}
	return unready
}

// addFailedCheck records the failed check of a runtime for messages. failed is nil if the runtime did not
// fail because of a check.
func (w *wave) addFailedCheck(r *Runtime, failed *v1beta2.CheckOutcome) {
	if failed != nil {
		w.failedChecks = append(w.failedChecks, failedCheckOf{r.ID, *failed})
	}
}

// failedChecksMessage returns a message that lists the failed checks with their runtimes and values, or "".
func (w *wave) failedChecksMessage() string {
	byCheck := map[string][]string{}
	var names []string
	for _, b := range w.failedChecks {
		if byCheck[b.outcome.Name] == nil {
			names = append(names, b.outcome.Name)
		}
		text := b.runtime
		if values := DescribeValues(b.outcome.Value, b.outcome.Before); values != "" {
			text += " (" + values + ")"
		}
		byCheck[b.outcome.Name] = append(byCheck[b.outcome.Name], text)
	}
	slices.Sort(names)
	var all strings.Builder
	for _, name := range names {
		fmt.Fprintf(&all, "; check %s failed in %s", name, joinListed(byCheck[name]))
	}
	return all.String()
}

func joinListed(items []string) string {
	text := strings.Join(items[:min(len(items), maxListed)], ", ")
	if more := len(items) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// DescribeCheck describes the result of a check in a runtime, with its values and its message.
func DescribeCheck(o v1beta2.CheckOutcome) string {
	return "check " + o.Name + " is " + describeOutcome(o)
}

func describeOutcome(o v1beta2.CheckOutcome) string {
	text := string(o.Result)
	for _, part := range []string{DescribeValues(o.Value, o.Before), o.Message} {
		if part != "" {
			text += ": " + part
		}
	}
	return text
}

// DescribeValues describes a check's value and its value before the upgrade. It returns "" if the check has no value.
func DescribeValues(value, before string) string {
	if value == "" || before == "" {
		return value
	}
	return value + ", " + before + " before the upgrade"
}

// recordChecks writes the results of each wave's checks to the rollout's status. During and after a rollback, it keeps
// the earlier results, because the runtimes then have a different version.
func (p *plan) recordChecks(runtimes []Runtime) {
	switch p.previousState {
	case fleet.RolloutRollingBack, fleet.RolloutRolledBack, fleet.RolloutSuperseded:
		return
	}
	for i := range p.waves {
		p.status.Waves[i].Checks = p.summarizeChecks(i, runtimes)
	}
}

// summarizeChecks summarizes a wave's check results in the runtimes that this rollout updated. It returns nil if the
// wave has no checks or no such runtimes.
func (p *plan) summarizeChecks(wave int, runtimes []Runtime) []fleet.CheckSummary {
	checks := p.waves[wave].checks
	if len(checks) == 0 {
		return nil
	}
	all := make([]fleet.CheckSummary, len(checks))
	measured, before := make([]readings.List, len(checks)), make([]readings.List, len(checks))
	failing := make([]readings.List, len(checks))
	found := false
	for i := range p.members {
		m, r := &p.members[i], &runtimes[i]
		if m.wave != wave || !m.isSelected || r.Version != p.spec.To {
			continue
		}
		found = true
		for n, c := range checks {
			o := r.checkOutcome(c)
			switch {
			case o == nil || o.Result == v1beta2.CheckInconclusive:
				all[n].Inconclusive++
			case o.Result == v1beta2.CheckFailed:
				all[n].Failed++
				failing[n] = failing[n].With(r.ID, o.Value)
			default:
				all[n].Passed++
			}
			if o == nil {
				continue
			}
			measured[n], before[n] = measured[n].With(r.ID, o.Value), before[n].With(r.ID, o.Before)
		}
	}
	if !found {
		return nil
	}
	for n, c := range checks {
		all[n].Name = c.Name
		all[n].Median, all[n].MedianBefore = measured[n].Median(), before[n].Median()
		// Prefer the values of failed checks. The highest value of all can belong to a runtime whose check passed, for
		// example with maxIncreasePercent.
		if worst := cmp.Or(failing[n].Worst(c.Check), measured[n].Worst(c.Check)); worst != nil {
			all[n].Worst, all[n].WorstRuntime = worst.Text, worst.Runtime
			all[n].WorstBefore = before[n].TextOf(worst.Runtime)
		}
	}
	return all
}
