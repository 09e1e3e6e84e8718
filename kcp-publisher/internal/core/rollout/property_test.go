package rollout

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// histories is the default number of random histories, with a fixed seed.
	histories = 5_000
	// perHistory multiplies $KYMA_PULL_HISTORIES, because the histories in this test run faster than those in other
	// tests.
	perHistory = 10
)

func historiesToRun(t *testing.T) (fixed, fresh int64) {
	t.Helper()
	asked := os.Getenv("KYMA_PULL_HISTORIES")
	if asked == "" {
		return histories, 0
	}
	count, err := strconv.ParseUint(asked, 10, 32)
	if err != nil {
		t.Fatalf("KYMA_PULL_HISTORIES: %v", err)
	}
	half := int64(count) * perHistory / 2
	return half, half
}

func TestRandomHistoriesKeepAllGuarantees(t *testing.T) {
	fixed, fresh := historiesToRun(t)
	for name, run := range map[string]struct {
		seed  uint64
		count int64
	}{"fixed seed": {20261121, fixed}, "random seed": {uint64(time.Now().UnixNano()), fresh}} {
		t.Run(name, func(t *testing.T) {
			seed, count := run.seed, run.count
			t.Logf("seed %d", seed)
			var next, ended, back, removed, restored, continued, without atomic.Int64
			var all sync.WaitGroup
			for range runtime.GOMAXPROCS(0) {
				all.Go(func() {
					for i := next.Add(1); i <= count && !t.Failed(); i = next.Add(1) {
						w := newWorld(rand.New(rand.NewPCG(seed, uint64(i))))
						w.wild = true
						if i%4 == 0 {
							w.hideModule()
						}
						w.live()
						if w.problem != "" {
							t.Errorf("seed %d, history %d: %s", seed, i, w.problem)
						}
						continued.Add(w.continued)
						without.Add(w.without)
						newest := NewestRollout(w.rollouts)
						switch {
						case newest == nil: // the module was never removed
						case newest.Status.State == fleet.RolloutSucceeded && w.track.IsRemoval:
							removed.Add(1)
						case newest.Status.State == fleet.RolloutRolledBack && w.track.IsRemoval:
							restored.Add(1)
						case newest.Status.State == fleet.RolloutSucceeded:
							ended.Add(1)
						case newest.Status.State == fleet.RolloutRolledBack:
							back.Add(1)
						}
					}
				})
			}
			all.Wait()
			t.Logf("%d rollouts succeeded, %d were rolled back, %d waves continued without deferred runtimes, %d runtimes "+
				"without passed checks were left behind", ended.Load(), back.Load(), continued.Load(), without.Load())
			t.Logf("%d removals succeeded, %d were rolled back", removed.Load(), restored.Load())
			if !t.Failed() && count >= histories && (removed.Load() < count/40 || restored.Load() < count/100) {
				t.Error("too few removals ended")
			}
			if !t.Failed() && count >= histories && continued.Load() == 0 {
				t.Error("no wave continued without deferred runtimes")
			}
			if !t.Failed() && seed == 20261121 && count >= histories && without.Load() == 0 {
				t.Error("no wave continued without passed checks")
			}
			if !t.Failed() && count >= histories && (ended.Load() < count/10 || back.Load() < count/25) {
				t.Errorf("of %d histories, only %d succeeded and %d were rolled back", count,
					ended.Load(), back.Load())
			}
		})
	}
}

// An attacker replaces the latest report in the registry with an old one. The runtime has signed the old report, but a
// report proves a version only if it is about the newest bundle.
func TestReplayedReportProvesOnlyItsOwnBundle(t *testing.T) {
	w := newWorld(rand.New(rand.NewPCG(1795310912810351249, 13602)))
	w.live()
	if w.problem != "" {
		t.Errorf("violated guarantee: %s", w.problem)
	}
}

func (w *world) live() {
	if !w.track.IsRemoval {
		w.channel = "2.0.0"
	}
	for range 8 {
		w.stir()
	}
	for _, m := range w.machines {
		m.online, m.mood, m.refuses = true, v1beta2.StateReady, false
		m.result, m.old, m.broken = v1beta2.CheckPassed, false, ""
	}
	// From now on, operators only resume and approve the last rollout, remove minReady, and skip empty waves.
	for range 60 {
		if newest := NewestRollout(w.rollouts); newest != nil {
			newest.Spec.Paused = false
			newest.Spec.Waves = slices.Clone(newest.Spec.Waves)
			for i, wave := range newest.Spec.Waves {
				newest.Spec.Waves[i].MinReady = nil // minReady can be larger than the wave
				if wave.Approval {
					newest.Spec.Waves[i].AllowEmpty = true // an approval to start a wave does not accept an empty wave
				}
				newest.Spec.ApprovedWaves = append(
					newest.Spec.ApprovedWaves[:len(newest.Spec.ApprovedWaves):len(newest.Spec.ApprovedWaves)],
					wave.Name)
				newest.Spec.ApprovedDeferredWaves = append(slices.Clone(newest.Spec.ApprovedDeferredWaves), wave.Name)
			}
			if w.isDone(newest) {
				w.settled(newest)
				return
			}
		}
		w.promote()
		for _, m := range w.machines {
			w.publish(m)
			w.report(m)
		}
		w.now = w.now.Add(time.Minute)
	}
	newest := NewestRollout(w.rollouts)
	if newest == nil {
		return // the catalog offered the module again before the first evaluation
	}
	w.fail("%s still has state %s an hour after the last failure: %s", newest.Name, newest.Status.State,
		newest.Status.Message)
}

func (w *world) stir() {
	for _, m := range w.machines {
		m.approved = m.approved || w.chance(30)
		switch w.random.IntN(22) {
		case 20, 21:
			if m.broken = ""; w.wild && w.chance(50) {
				m.broken = w.channel
			}
		case 14:
			m.result = v1beta2.CheckFailed
		case 15:
			m.result = v1beta2.CheckInconclusive
		case 16:
			m.result = ""
		case 17:
			m.result = v1beta2.CheckPassed
		case 18:
			m.old = w.wild && !m.old
		case 19:
			if w.wild && m.labels == nil {
				m.labels = map[string]string{"canary": "yes"}
			} else if w.wild {
				m.labels = nil
			}
		case 0:
			m.online = !m.online
		case 1:
			m.mood = v1beta2.StateError
		case 2:
			m.mood = v1beta2.StateProcessing
		case 3:
			m.mood = v1beta2.StateReady
		case 4: // an attacker restores an old report of the same runtime
			if n := len(m.reports); n > 0 {
				old := m.reports[w.random.IntN(n)]
				m.reported, m.saidState, m.saidResult = old.about, old.state, old.check
				w.recordReport(m)
			}
		case 5: // the runtime reports the bundle of another runtime
			m.reported, m.saidState, m.lastReport = -1, v1beta2.StateReady, w.now
		case 6: // other parts of the bundle change
			w.push(m)
		case 7: // the publisher crashes between the push and the status update
			known, digest := *m.known.DeepCopy(), m.knownDigest
			w.publish(m)
			m.known, m.knownDigest = known, digest
		case 8:
			m.refuses, m.refusedSince = w.wild && !m.refuses, w.now
		}
		if w.chance(80) {
			w.publish(m)
		}
		if w.chance(70) {
			w.report(m)
		}
	}
	if w.chance(10) { // another publisher takes over with the recorded state
		w.began = w.now
		for _, m := range w.machines {
			m.polled = false
		}
	}
	if newest := NewestRollout(w.rollouts); newest != nil {
		switch event := w.random.IntN(40); {
		case w.track.IsRemoval && event >= 7 && event <= 11:
			w.channel = map[bool]string{true: fleet.VersionRemoved}[event > 8]
		default:
			w.changeRollout(newest, event)
		}
	}
	if w.wild && w.chance(8) && len(w.machines) > 1 { // an admin removes the module, or the Kyma is deleted
		n := w.random.IntN(len(w.machines))
		w.gone = append(w.gone, w.machines[n])
		w.machines = slices.Delete(w.machines, n, n+1)
	}
	if w.wild && w.chance(10) {
		w.created++
		w.machines = append(w.machines, newMachine(100+w.created, ""))
	}
	w.promote()
	w.now = w.now.Add(time.Duration(20+w.random.IntN(60)) * time.Second)
	if w.wild && w.chance(10) { // the time of the checks ends, and every runtime reports again
		w.now = w.now.Add(minCheckFor)
		for _, m := range w.machines {
			w.report(m)
		}
	}
}

// changeRollout performs an action of an operator or a developer. Most events do not cause an action.
func (w *world) changeRollout(newest *fleet.Rollout, event int) {
	switch event {
	case 0, 1:
		newest.Spec.Paused = !newest.Spec.Paused
	case 2, 3, 4:
		newest.Spec.ApprovedWaves = []string{newest.Spec.Waves[0].Name}
	case 5:
		newest.Spec.Undo = true
	case 6:
		newest.Spec.Abort = true
	case 7:
		w.channel = "3.0.0"
	case 8:
		w.channel = newest.Spec.From
	case 9, 10:
		if w.wild {
			w.channel = "1.5.0"
		}
	case 11:
		w.channel = newest.Spec.To
	case 12:
		newest.Spec.Retry = IsFinished(newest.Status.State)
	case 13, 14:
		for _, wave := range newest.Status.Waves {
			if wave.WaitsForDeferred && AwaitsApproval(newest.Spec, wave) {
				newest.Spec.ApprovedDeferredWaves = append(slices.Clone(newest.Spec.ApprovedDeferredWaves), wave.Name)
			}
		}
	}
}

// check fails the test if a step of a rollout contradicts the events that have happened in the runtimes.
func (w *world) check(r *fleet.Rollout, before fleet.RolloutStatus, step Step, facts []Runtime) {
	active := !IsFinished(step.Status.State) && step.Status.State != fleet.RolloutRollingBack
	for i := range step.Status.Waves {
		started := step.Status.Waves[i].StartedAt != nil
		if i > 0 && started && step.Status.Waves[i-1].ProvenAt == nil {
			w.fail("%s: wave %d started before the previous wave was proven", r.Name, i)
		}
		if len(before.Waves) > 0 && before.Waves[i].ProvenAt == nil && step.Status.Waves[i].ProvenAt != nil {
			w.checkProof(r, step, i, facts)
			w.checkDeferred(r, step.Status.Waves[i], i)
		}
	}
	fresh, flying, failing, wave := map[int]int{}, map[int]int{}, map[int]int{}, map[int]int{}
	p := &plan{name: r.Name, spec: r.Spec, status: step.Status, input: PlanInput{Now: w.now}}
	p.assignRuntimes(facts)
	for i, m := range w.machines {
		n := p.members[i].wave
		wave[n]++
		mine := m.known.Given[keda.Module].Rollout == r.Name && m.known.Versions[keda.Module] == r.Spec.To
		ready := m.readyBy[r.Name+r.Spec.To] || mine && m.wasReadyBefore(r.Spec.To)
		broken := mine && m.reported == m.knownDigest && m.saidState == v1beta2.StateError
		checked := n >= 0 && len(r.Spec.Waves[n].Checks) > 0
		broken = broken || mine && checked && known(m) == v1beta2.CheckFailed
		ready = ready && (!checked || known(m) == v1beta2.CheckPassed || approvedWithoutChecks(r, n))
		reportedAt := m.lastReport
		if !m.polled && w.now.Sub(w.began) > r.Spec.OfflineAfter.Duration {
			reportedAt = m.noted // an unread report does not extend the wait
		}
		quiet := w.now.Sub(reportedAt) > r.Spec.OfflineAfter.Duration
		late := mine && !ready && m.lastReport.After(m.known.Given[keda.Module].Time.Add(5*time.Minute))
		if broken {
			failing[n]++
		}
		may := step.Decisions != nil && step.Decisions[i].Version == r.Spec.To &&
			m.known.Versions[keda.Module] != r.Spec.To
		granted := may && !contains(before, n, m.id)
		if granted {
			fresh[n]++
			if checked && m.old && !approvedWithoutChecks(r, n) {
				w.fail("%s: %s can have the version although its agent does not support checks", r.Name, m.id)
			}
			if step.Status.Waves[n].StartedAt == nil || !active || r.Spec.Paused || quiet || m.refuses {
				w.fail("%s: %s can have the version although its wave has not started, the rollout is at rest, or "+
					"the runtime is silent or unpublishable", r.Name, m.id)
			}
		}
		// The publisher does not wait for an overdue check if minReady allows it.
		overdue := mine && m.known.Given[keda.Module].Ready && n >= 0 && r.Spec.Waves[n].MinReady != nil &&
			isOverdue(m, r.Spec.Waves[n], w.now)
		if may || mine && !ready && !broken && !quiet && !late && !overdue {
			flying[n]++
		}
	}
	for n, count := range fresh {
		if limit := r.Spec.Waves[n].MaxConcurrent; limit != nil && count > 0 {
			bound := max(1, scaledDown(limit.String(), int(step.Status.Waves[n].Total)))
			if flying[n] > bound {
				w.fail("%s: wave %d has %d runtimes in flight, must be at most %d", r.Name, n, flying[n], bound)
			}
		}
		for other, failed := range failing {
			if limit := r.Spec.Waves[other].MaxFailures; failed > 0 {
				bound := 0
				if total := int(step.Status.Waves[other].Total); limit == nil && total >= 10 {
					bound = max(1, total/100)
				} else if limit != nil {
					bound = scaledDown(limit.String(), int(step.Status.Waves[other].Total))
				}
				if failed > bound {
					w.fail("%s: wave %d continues after %d failures in wave %d, at most %d", r.Name, n, failed,
						other, bound)
				}
			}
		}
	}
}

// checkRestartDecisions repeats a step as a restarted publisher does. The repeated step must make the same decisions,
// even if reports about other bundles have a different content.
func (w *world) checkRestartDecisions(
	r *fleet.Rollout, before fleet.RolloutStatus, step Step, facts []Runtime, situation PlanInput,
) {
	lies := append([]Runtime(nil), facts...)
	for i := range lies {
		if !lies[i].IsCurrent {
			lies[i].State = []v1beta2.State{v1beta2.StateReady, v1beta2.StateError,
				v1beta2.StateWarning}[w.random.IntN(3)]
		}
	}
	if other := Plan(r.Name, r.Spec, before, lies, situation); !reflect.DeepEqual(step, other) {
		w.fail("%s: a report about another bundle changed\n%+v\nto\n%+v", r.Name, step, other)
	}
	if again := Plan(r.Name, r.Spec, step.Status, facts, situation); !reflect.DeepEqual(step.Decisions,
		again.Decisions) || step.Status.State != again.Status.State {
		w.fail("%s: decisions differ after a restart:\n%+v\n%+v", r.Name, step, again)
	}
}

// settled fails the test if the runtimes' versions contradict the final state of the newest rollout.
func (w *world) settled(r *fleet.Rollout) {
	for range 3 {
		w.promoteSurely()
		for _, m := range w.machines {
			w.publish(m)
			w.report(m)
		}
	}
	for _, m := range w.machines {
		switch {
		case r.Status.State == fleet.RolloutSucceeded && w.track.IsRemoval && m.version != r.Spec.To &&
			w.channel == r.Spec.To:
			w.fail("%s succeeded, but %s still has the module", r.Name, m.id)
		case r.Status.State == fleet.RolloutSucceeded && bundle.IsOlder(m.version, r.Spec.To):
			w.fail("%s succeeded, but %s has %s", r.Name, m.id, m.version)
		case r.Status.State == fleet.RolloutRolledBack && m.version == r.Spec.To && m.givenBy == r.Name:
			w.fail("%s was rolled back, but %s still has the version", r.Name, m.id)
		}
	}
}

func (w *world) promoteSurely() {
	newest := NewestRollout(w.rollouts)
	facts := make([]Runtime, len(w.machines))
	for i, m := range w.machines {
		facts[i] = w.fact(m)
	}
	step := Plan(newest.Name, newest.Spec, newest.Status, facts, w.situation(newest))
	newest.Status, w.gates = step.Status, Gates{w.track: NewGate(newest, step, facts)}
}

func contains(status fleet.RolloutStatus, wave int, id string) bool {
	if wave < 0 || wave >= len(status.Waves) {
		return false
	}
	for _, granted := range status.Waves[wave].Granted {
		if granted == id {
			return true
		}
	}
	return false
}

func scaledDown(amount string, of int) int {
	var n int
	if _, err := fmt.Sscanf(amount, "%d%%", &n); err == nil && amount[len(amount)-1] == '%' {
		return n * of / 100
	}
	fmt.Sscanf(amount, "%d", &n)
	return n
}
