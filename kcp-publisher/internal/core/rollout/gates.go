package rollout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// Gates maps each track (a module in a channel) to the Gate that decides about the track's versions. Gates is
// immutable.
type Gates map[Track]*Gate

// Gate decides which version each runtime that follows a track can have.
type Gate struct {
	rollout  string
	from, to string
	// isFromUnproven is true if the version in from must not replace older versions: see plan.isFromUnproven.
	isFromUnproven bool
	isOpen         bool
	// finishedAt is the end of a successful removal. Later removals of the module need another rollout. finishedAt is
	// zero for the gate of a promotion.
	finishedAt time.Time
	heldReason string
	// decisions contains each different Decision once. decisionIndex maps a runtime ID to an index in decisions. A
	// runtime that is not in decisionIndex is new.
	decisions     []Decision
	decisionIndex map[string]int32
	// checks contains the checks of each wave. endedWaves contains true for each wave that was proven or has failed.
	checks     []WaveChecks
	endedWaves []bool
	// awaitedRuntimes contains the IDs of the runtimes whose reports the rollout is waiting for.
	awaitedRuntimes []string
}

// NewGate returns the Gate of a track (a module in a channel). newest is the newest rollout of the track, and step is
// the next step of this rollout.
func NewGate(newest *fleet.Rollout, step Step, runtimes []Runtime) *Gate {
	g := &Gate{
		rollout: newest.Name, from: newest.Spec.From, to: newest.Spec.To, isFromUnproven: step.isFromUnproven,
	}
	if step.Status.State == fleet.RolloutSucceeded {
		g.isOpen, g.to = true, lastGoodVersion(&fleet.Rollout{Spec: newest.Spec, Status: step.Status})
		if end := step.Status.FinishedAt; end != nil && IsRemoval(newest.Spec) {
			g.finishedAt = end.Time
		}
		return g
	}
	g.heldReason = (&plan{name: newest.Name, spec: newest.Spec, status: step.Status}).holdReasons().find(noWave, false)
	g.checks, g.endedWaves = checksByWave(newest.Spec.Course), endedWaves(step.Status)
	g.decisionIndex = make(map[string]int32, len(step.Decisions))
	last := 0
	for i, d := range step.Decisions {
		if last >= len(g.decisions) || g.decisions[last] != d {
			if last = slices.Index(g.decisions, d); last < 0 {
				last, g.decisions = len(g.decisions), append(g.decisions, d)
			}
		}
		g.decisionIndex[runtimes[i].ID] = int32(last)
	}
	for i, is := range step.AwaitsReport {
		if is {
			g.awaitedRuntimes = append(g.awaitedRuntimes, runtimes[i].ID)
		}
	}
	return g
}

// newRecordedGate returns the Gate of a track whose newest rollout needs no decisions about single runtimes. If the
// rollout has not succeeded, every runtime keeps its version.
func newRecordedGate(newest *fleet.Rollout) *Gate {
	return NewGate(newest, Step{Status: newest.Status, isFromUnproven: newest.Spec.FromUnproven}, nil)
}

// findDecision returns the Decision for a runtime. It returns false for a new runtime, which was not part of the
// rollout's last step.
func (g *Gate) findDecision(runtime string) (Decision, bool) {
	at, known := g.decisionIndex[runtime]
	if !known {
		return Decision{}, false
	}
	return g.decisions[at], true
}

// Decide returns the Decision for a runtime. own is the runtime's current version. A new runtime does not get the
// promoted version. A runtime whose version is newer than the last good version keeps its version. A Decision is a
// rollback only if ReplacedVersion is set.
func (g *Gate) Decide(runtime, own string) Decision {
	d, known := g.findDecision(runtime)
	switch {
	case g.isOpen, d.ReplacedVersion == "" && own != "" && own == g.to:
		return Decision{Version: g.to, Checks: d.Checks}
	case known:
		if d.ReplacedVersion == "" && d.HeldReason != "" {
			d.Version = keptVersion(d.Version, g.isFromUnproven, own)
		}
		return d
	}
	return Decision{Version: keptVersion(g.from, g.isFromUnproven, own), HeldReason: g.heldReason}
}

// keptVersion returns the version that a runtime keeps until the rollout updates it. from is the rollout's last good
// version, and own is the runtime's current version. keptVersion returns the newer of the two, but never replaces own
// with an unproven version.
func keptVersion(from string, isUnproven bool, own string) string {
	if own == "" || own == from || !isUnproven && from != "" && bundle.IsOlder(own, from) {
		return from
	}
	return own
}

// PlannedRemoval is the Decision about a removal that waits until the publisher has created its Rollout.
var PlannedRemoval = Decision{HeldReason: "the publisher plans the rollout of the removal"}

// Select returns the entry in a Kyma's status for a module whose version this Gate's rollout selected. issued is the
// time of the bundle.
func (g *Gate) Select(issued time.Time) v1beta2.GivenVersion {
	return v1beta2.GivenVersion{Rollout: g.rollout, Time: metav1.NewTime(issued.Truncate(time.Second))}
}

// DecideRemoval returns the Decision about the removal of a module from a runtime. decidedAt is the time at which the
// publisher allowed the removal. The removal must wait if HeldReason is set. If ReplacedVersion is also set, the
// runtime gets the module again.
func (g *Gate) DecideRemoval(runtime string, decidedAt time.Time) Decision {
	d, known := g.findDecision(runtime)
	switch {
	case g.isOpen && !decidedAt.After(g.finishedAt):
		return Decision{Version: fleet.VersionRemoved}
	case g.isOpen:
		return PlannedRemoval
	case known:
		return d
	}
	return Decision{Version: g.from, HeldReason: g.heldReason}
}

// CatalogVersion returns the version of the track's channel to publish in a runtime's catalog. It is the version that
// the rollout allows in the runtime. own is the runtime's current version. offered is the channel's version in the
// control plane.
func (g *Gate) CatalogVersion(runtime, own, offered string) string {
	if g == nil || g.isOpen {
		return offered
	}
	if _, known := g.findDecision(runtime); known {
		return cmp.Or(g.Decide(runtime, own).Version, offered)
	}
	return cmp.Or(g.from, offered)
}

// isSameGate reports whether two Gates are the same object or both allow the same version in all runtimes. If it
// returns true, they always make the same decisions. It does not compare the decisions about single runtimes.
func (g *Gate) isSameGate(other *Gate) bool {
	if g == nil || other == nil || g == other {
		return g == other
	}
	return g.isOpen && other.isOpen && g.to == other.to && g.finishedAt.Equal(other.finishedAt)
}

// HasSameDecisions reports whether g and others make the same decisions and wait for reports from the same runtimes.
func (g Gates) HasSameDecisions(others Gates) bool {
	return maps.EqualFunc(g, others, func(a, b *Gate) bool {
		return a.rollout == b.rollout && a.from == b.from && a.to == b.to && a.isOpen == b.isOpen &&
			a.isFromUnproven == b.isFromUnproven &&
			a.heldReason == b.heldReason && a.finishedAt.Equal(b.finishedAt) &&
			slices.Equal(a.decisions, b.decisions) && hasSameChecks(a.checks, b.checks) &&
			slices.Equal(a.endedWaves, b.endedWaves) &&
			maps.Equal(a.decisionIndex, b.decisionIndex) && slices.Equal(a.awaitedRuntimes, b.awaitedRuntimes)
	})
}

// ChangedTracks returns the tracks whose decisions may differ between g and others.
func (g Gates) ChangedTracks(others Gates) map[Track]bool {
	moved := map[Track]bool{}
	for _, gates := range []Gates{g, others} {
		for track := range gates {
			if !g[track].isSameGate(others[track]) {
				moved[track] = true
			}
		}
	}
	return moved
}

// Equal reports whether two Gates make the same decision for a runtime whose current version is own, and agree on
// whether the runtime's wave has ended.
func (g *Gate) Equal(other *Gate, runtime, own string) bool {
	if g == nil || other == nil {
		return g == other
	}
	a, b := g.Decide(runtime, own), other.Decide(runtime, own)
	if a.ReplacedVersion == "" && b.ReplacedVersion == "" && a.HeldReason != "" && b.HeldReason != "" {
		// Bundles contain the text in HeldReason only during a rollback.
		a.HeldReason, b.HeldReason = "", ""
	}
	return a == b && g.isWaveEnded(a) == other.isWaveEnded(b) &&
		(a.Checks == 0 || hasSameChecks(g.checks[a.Checks-1:a.Checks], other.checks[b.Checks-1:b.Checks]))
}

// AwaitedRuntimes returns the IDs of the runtimes whose reports a rollout is waiting for.
func (g Gates) AwaitedRuntimes() map[string]bool {
	all := map[string]bool{}
	for _, gate := range g {
		for _, runtime := range gate.awaitedRuntimes {
			all[runtime] = true
		}
	}
	return all
}

// SelectedVersions maps each module of a new bundle to the rollout that selected the module's version. before is the
// entry of the previous bundle in the Kyma's status, or nil. issued is the time of the new bundle.
func (g Gates) SelectedVersions(
	runtime string, manifests []bundle.Manifest, before *v1beta2.PublishedBundle, issued time.Time,
) map[string]v1beta2.GivenVersion {
	versions := map[string]v1beta2.GivenVersion{}
	for _, m := range manifests {
		if before != nil && before.Versions[m.Module] == m.Version {
			if known, ok := before.Given[m.Module]; ok {
				versions[m.Module] = known
			}
			continue
		}
		gate := g[Track{Module: m.Module, Channel: m.Channel}]
		if gate == nil || gate.rollout == "" {
			continue
		}
		decided, _ := gate.findDecision(runtime)
		// A runtime that keeps version gate.to despite its rollback got the version from a later rollout.
		isKept := decided.ReplacedVersion == gate.to
		if m.Version == gate.to && !isKept || m.Version == gate.from && decided.ReplacedVersion != "" {
			versions[m.Module] = gate.Select(issued)
		}
	}
	if len(versions) == 0 {
		return nil
	}
	return versions
}

// endedWaves reports for each wave whether it has checks and was proven or has failed.
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

// HasWaveEnded reports whether the wave of a runtime has ended in the rollout that installed the module's version.
// given is the module's entry in the Kyma's status. HasWaveEnded returns false if another rollout or another version
// followed.
func (g Gates) HasWaveEnded(track Track, runtime string, given v1beta2.GivenVersion, version string) bool {
	gate := g[track]
	if gate == nil || gate.rollout != given.Rollout || gate.to != version {
		return false
	}
	d, _ := gate.findDecision(runtime)
	return gate.isOpen || gate.isWaveEnded(d)
}

func hasSameChecks(a, b []WaveChecks) bool {
	return slices.EqualFunc(a, b, func(a, b WaveChecks) bool { return equality.Semantic.DeepEqual(a, b) })
}

// Checks returns the checks of the wave with the number d.Checks. If ok is false, the runtime keeps its current checks.
func (g Gates) Checks(track Track, d Decision) (checks WaveChecks, ok bool) {
	gate := g[track]
	if gate == nil || d.Checks < 1 || d.Checks > len(gate.checks) {
		return WaveChecks{}, false
	}
	return gate.checks[d.Checks-1], true
}
