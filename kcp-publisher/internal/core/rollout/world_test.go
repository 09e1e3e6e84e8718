package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

var keda = Track{Module: "keda", Channel: "regular"}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// simulatedRuntime simulates a runtime with its bundles in the registry and the status of its Kyma.
type simulatedRuntime struct {
	id     string
	labels map[string]string
	// version and digest describe the newest bundle of the runtime in the registry.
	version string
	digest  int
	// known and the following fields are part of the status of the runtime's Kyma: the recorded bundle and the last
	// report.
	known       v1beta2.PublishedBundle
	knownDigest int
	reported    int // the bundle in the last report
	saidState   v1beta2.State
	saidResult  v1beta2.CheckResult
	noted       time.Time  // the recorded arrival time of the last report
	reports     []reported // all reports of the runtime
	// lastReport is the arrival time of the last report. Only the publisher's memory contains it.
	lastReport time.Time
	polled     bool
	// online and the following fields describe the runtime itself. online is true if its agent pulls and reports.
	online bool
	mood   v1beta2.State
	// result is the last result of the check that the agent measured, or empty.
	result v1beta2.CheckResult
	// old is true if the agent does not support checks.
	old bool
	// refuses is true if the registry refuses bundles for this runtime.
	refuses      bool
	refusedSince time.Time
	// broken is the version that the publisher cannot resolve for the runtime, or empty. unresolved is the version that
	// the Kyma's status records.
	broken, unresolved string
	// decided is the time at which the publisher decided about the removal of the module, or zero. approved is true if
	// the removal does not wait for an operator's approval. recorded is the last value of decided that is not zero.
	decided, recorded time.Time
	approved          bool
	// The following fields record events, so that the test can check decisions. givenBy is the rollout that selected
	// the runtime's version.
	givenBy string
	bundles map[int]string  // each bundle's rollout and version, by its simulated digest
	readyBy map[string]bool // true for each rollout and version that was ready
}

type reported struct {
	about int
	state v1beta2.State
	check v1beta2.CheckResult
}

func (w *world) fact(m *simulatedRuntime) Runtime {
	r := Runtime{
		ID: m.id, Labels: m.labels, LastReport: silence.LastReport{KnownAt: m.lastReport},
		Version: m.known.Versions[keda.Module], IsCurrent: m.reported == m.knownDigest, State: m.saidState,
	}
	if given, ok := m.known.Given[keda.Module]; ok {
		r.Selection = &given
	}
	r.RemovalDecidedAt, r.RemovalHeld = m.decided, w.track.IsRemoval && !m.approved
	if r.Version == fleet.VersionRemoved {
		r.RemovalDecidedAt = m.recorded
	}
	r.LacksChecks = m.old
	r.Unpublishable, r.UnpublishableSince = m.refuses, m.refusedSince
	r.UnresolvedVersion = m.unresolved
	if !m.polled {
		r.LastReport = silence.LastReport{KnownAt: m.noted, PossibleAt: w.began}
	}
	return r
}

type world struct {
	random   *rand.Rand
	now      time.Time
	began    time.Time // the start of the publisher
	digests  int
	policy   *fleet.RolloutPolicy
	channel  string
	machines []*simulatedRuntime
	// gone contains the runtimes that left the channel. created counts the runtimes that joined it later.
	gone     []*simulatedRuntime
	created  int
	rollouts []*fleet.Rollout
	// continued counts the waves that were proven although some of their runtimes were deferred.
	continued int64
	// without is the number of runtimes whose checks have not passed although their wave is proven. minReady allows
	// such waves.
	without int64
	gates   Gates
	// isGateCurrent is true if gates contains the decisions of the last step.
	isGateCurrent bool
	// track is keda, or the removal of keda: see removalworld_test.go.
	track   Track
	wild    bool   // also simulates pushes that are refused, and intermediate promotions
	problem string // the first violated guarantee
}

func (w *world) fail(format string, args ...any) {
	if w.problem == "" {
		w.problem = fmt.Sprintf(format, args...)
	}
}

func (w *world) chance(percent int) bool { return w.random.IntN(100) < percent }

func newWorld(random *rand.Rand) *world {
	w := &world{random: random, now: noon, channel: "1.0.0", track: keda,
		gates: Gates{keda: &Gate{to: "1.0.0", isOpen: true}}}
	w.policy = &fleet.RolloutPolicy{Spec: fleet.RolloutPolicySpec{Course: w.course()}}
	w.policy.Name = "careful"
	for i := range 2 + random.IntN(5) {
		m := newMachine(i, "1.0.0")
		if w.chance(30) {
			m.labels = map[string]string{"canary": "yes"}
		}
		w.machines = append(w.machines, m)
		w.push(m)
		w.publish(m)
		w.report(m)
	}
	return w
}

func newMachine(number int, version string) *simulatedRuntime {
	return &simulatedRuntime{
		id: fmt.Sprint("r-", number), version: version, online: true, mood: v1beta2.StateReady,
		result:  v1beta2.CheckPassed,
		bundles: map[int]string{}, readyBy: map[string]bool{},
	}
}

func (w *world) course() fleet.Course {
	course := fleet.Course{OnFailure: fleet.OnFailureRollback, OfflineAfter: metav1.Duration{Duration: 3 * time.Minute}}
	if w.chance(40) {
		course.OnFailure = fleet.OnFailureStop
	}
	amount := func() *intstr.IntOrString {
		switch w.random.IntN(4) {
		case 0:
			return new(intstr.FromString(fmt.Sprintf("%d%%", w.random.IntN(101))))
		case 1:
			return new(intstr.FromInt32(w.random.Int32N(3)))
		}
		return nil
	}
	for i := range 1 + w.random.IntN(3) {
		wave := fleet.Wave{
			AllowEmpty: w.chance(30), Name: fmt.Sprint("w", i), Deadline: metav1.Duration{Duration: 5 * time.Minute},
			FailsOn:       []fleet.Symptom{fleet.SymptomError, fleet.SymptomNotReady},
			MaxConcurrent: amount(), MaxFailures: amount(), MaxDeferred: amount(), Approval: w.chance(15),
			Soak: metav1.Duration{Duration: time.Duration(w.random.IntN(3)) * time.Minute},
		}
		if w.chance(20) {
			wave.MinReady = amount()
		}
		if w.chance(40) {
			wave.Checks = []fleet.Check{worksCheck}
			if w.chance(50) {
				wave.MinReady = new(intstr.FromInt32(1))
			}
		}
		switch w.random.IntN(3) {
		case 0:
			wave.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
		case 1:
			wave.Percent = new(1 + w.random.Int32N(100))
		case 2:
			wave.Count = new(1 + w.random.Int32N(3))
		}
		course.Waves = append(course.Waves, wave)
	}
	return course
}

func (w *world) push(m *simulatedRuntime) {
	w.digests++
	m.digest = w.digests
	m.bundles[m.digest] = m.givenBy + m.version
}

// publish reconciles one runtime: it pushes the version that the gate allows, and then records the push.
func (w *world) publish(m *simulatedRuntime) {
	if m.refuses {
		m.noted, m.polled = m.lastReport, true // the publisher still reads the report
		return
	}
	if w.track.IsRemoval {
		w.publishRemoval(m)
		return
	}
	gate := w.gates[keda]
	d := gate.Decide(m.id, m.known.Versions[keda.Module])
	m.unresolved = ""
	if m.broken != "" && (d.Version == m.broken || d.TriedVersion == m.broken) && m.version != m.broken {
		m.unresolved = m.broken
	}
	switch {
	case d.Version == m.version:
	case m.broken != "" && d.Version == m.broken: // the runtime keeps its version
	case m.version == "":
		if newest := NewestRollout(w.rollouts); newest != nil && w.isGateCurrent && !w.shown(d.Version) &&
			(IsFinished(newest.Status.State) || newest.Status.State == fleet.RolloutWaiting) {
			w.fail("new runtime %s gets %s, with which no runtime was ever ready, and %s is %s", m.id, d.Version,
				newest.Name, newest.Status.State)
		}
		m.version, m.givenBy = d.Version, gate.rollout
		w.push(m)
	case bundle.IsOlder(d.Version, m.version) && d.ReplacedVersion != m.version: // refused as a downgrade
	default:
		if bundle.IsOlder(d.Version, m.version) && !w.mayReturn(m, gate) {
			w.fail("%s is rolled back from %s to %s, but not touched by %s", m.id, m.version, d.Version, gate.rollout)
		}
		m.version, m.givenBy = d.Version, gate.rollout
		w.push(m)
	}
	w.write(m)
}

// mayReturn reports whether the gate's rollout or one of its predecessors selected the runtime's version.
func (w *world) mayReturn(m *simulatedRuntime, gate *Gate) bool {
	selected := []string{gate.rollout}
	for _, r := range w.rollouts {
		if r.Name == gate.rollout {
			selected = append(selected, r.Spec.Predecessors...)
		}
	}
	for _, r := range w.rollouts {
		if r.Name != gate.rollout && r.Status.State == fleet.RolloutSucceeded && slices.Contains(selected, r.Name) {
			w.fail("%s has predecessor %s, which succeeded", gate.rollout, r.Name)
		}
	}
	return slices.Contains(selected, m.givenBy) || slices.Contains(selected, m.known.Given[keda.Module].Rollout)
}

func (w *world) write(m *simulatedRuntime) {
	manifests := []bundle.Manifest{{Module: keda.Module, Channel: keda.Channel, Version: m.version}}
	given := w.gates.SelectedVersions(m.id, manifests, &m.known, w.now)
	m.known = v1beta2.PublishedBundle{Versions: map[string]string{keda.Module: m.version}, Given: given}
	m.knownDigest, m.noted, m.polled = m.digest, m.lastReport, true
	w.recordReport(m)
}

// recordReport copies the check result and the ready state from a report to the Kyma's status, if the report is about
// the recorded bundle.
func (w *world) recordReport(m *simulatedRuntime) {
	if m.reported != m.knownDigest {
		return
	}
	if given, ok := m.known.Given[keda.Module]; ok && m.saidResult != "" {
		given.Checks = []v1beta2.CheckOutcome{{
			Name: "works", Result: m.saidResult, Definition: checks.DefinitionID(worksCheck),
		}}
		m.known.Given[keda.Module] = given
	}
	if m.saidState != v1beta2.StateReady {
		return
	}
	m.readyBy[m.bundles[m.reported]] = true
	if given, ok := m.known.Given[keda.Module]; ok {
		given.Ready = true
		m.known.Given[keda.Module] = given
	}
}

func (w *world) report(m *simulatedRuntime) {
	if m.online {
		result := m.result
		if m.old {
			result = ""
		}
		if m.reported != m.digest || m.saidState != m.mood || m.saidResult != result {
			m.noted = w.now // otherwise, the report is unchanged
		}
		m.reported, m.saidState, m.saidResult, m.lastReport = m.digest, m.mood, result, w.now
		m.reports = append(m.reports, reported{m.digest, m.mood, result})
		w.recordReport(m)
	}
}

// shown reports whether a version was ever proven: a runtime was ready with it, or an operator approved a wave of a
// rollout to this version.
func (w *world) shown(version string) bool {
	if version == "1.0.0" {
		return true
	}
	for _, r := range w.rollouts {
		if r.Spec.To == version && len(r.Spec.ApprovedWaves) > 0 {
			return true
		}
		for _, m := range slices.Concat(w.machines, w.gone) {
			if m.readyBy[r.Name+version] {
				return true
			}
		}
	}
	return false
}

// promote performs one evaluation: it plans one step of the newest rollout, and creates a rollout if the channel has
// another version.
func (w *world) promote() {
	facts := make([]Runtime, len(w.machines))
	for i, m := range w.machines {
		facts[i] = w.fact(m)
	}
	newest := NewestRollout(w.rollouts)
	if spec := w.nextRollout(newest, facts); spec != nil {
		next := newRollout(w.track, *spec, w.rollouts)
		if !w.shown(spec.From) {
			w.fail("%s returns to %s, with which no runtime was ever ready, without approval", next.Name,
				spec.From)
		}
		w.rollouts = append(w.rollouts, next)
		if newest != nil && !IsFinished(newest.Status.State) {
			newest.Status = Plan(newest.Name, newest.Spec, newest.Status, facts,
				PlanInput{NewerRollout: next.Name, ChannelVersion: w.channel, Now: w.now}).Status
		}
		newest = next
	}
	if newest == nil {
		return
	}
	situation := w.situation(newest)
	before := *newest.Status.DeepCopy()
	step := Plan(newest.Name, newest.Spec, before, facts, situation)
	w.check(newest, before, step, facts)
	w.checkParts(newest, step, facts)
	w.checkHolder(newest, step, facts)
	if w.chance(20) {
		w.checkRestartDecisions(newest, before, step, facts, situation)
	}
	newest.Status = step.Status
	// Otherwise, the publisher crashed before any runtime could act.
	if w.isGateCurrent = !w.chance(10); w.isGateCurrent {
		w.gates = Gates{w.track: NewGate(newest, step, facts)}
	}
}
