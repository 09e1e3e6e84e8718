// Package chaos injects random faults into a fleet. It checks that the invariants hold during the faults and that the
// fleet converges afterwards.
//
// The decisions are pure functions: Generate returns the plan for a seed, Checker checks observations, and Judge checks
// the final state. Run executes a plan with real API servers, a real registry, Git and the two programs. A seed always
// generates the same plan, but the programs' timing varies.
package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Step is one action of a plan.
type Step struct {
	// At is the start of the step, counted from the beginning of the run. For is the step's duration, or zero for an
	// instantaneous step.
	At, For time.Duration
	Kind    Kind
	// Target is the affected runtime, publisher, version or connection. It is empty for kinds with only one possible
	// target, such as the registry.
	Target string
	// Serial numbers the steps of each kind.
	Serial int
	// By is the clock shift. It is negative if the step sets the clock back.
	By time.Duration
	// About is the name of the object that the step changes. Two steps with the same name do not overlap.
	About string
}

func (s Step) String() string {
	text := string(s.Kind)
	if s.Target != "" {
		text += " (" + s.Target + ")"
	}
	if s.By != 0 {
		text += fmt.Sprintf(" by %+g hours", s.By.Hours())
	}
	if s.For > 0 {
		text += " for " + s.For.String()
	}
	return text
}

// publisherPrefix precedes the number of a publisher in a step's target.
const publisherPrefix = "publisher "

// The minimum and maximum time between the starts of two steps.
const (
	shortestGap = 500 * time.Millisecond
	longestGap  = 4 * time.Second
)

// generator tracks the state of the fleet while it generates a plan.
type generator struct {
	random  *rand.Rand
	shape   Shape
	now     time.Duration
	until   map[string]time.Duration // end of each active fault by Step.About
	serial  map[Kind]int
	mailer  map[string]bool // runtimes that currently have module mailer
	extra   []string        // names of additional Kymas
	version int             // number of the newest promoted version
}

// Generate returns the plan for a seed. The same arguments return the same plan.
func Generate(seed uint64, shape Shape, length time.Duration) []Step {
	g := &generator{
		random: rand.New(rand.NewPCG(seed, 22)), shape: shape, until: map[string]time.Duration{},
		serial: map[Kind]int{}, mailer: map[string]bool{},
	}
	var plan []Step
	for {
		g.now += (shortestGap + time.Duration(g.random.Int64N(int64(longestGap-shortestGap)))).
			Round(100 * time.Millisecond)
		if g.now >= length {
			return plan
		}
		if step, can := g.randomStep(length); can {
			plan = append(plan, step)
		}
	}
}

// randomStep returns a random step, or false if the step is not possible.
func (g *generator) randomStep(length time.Duration) (Step, bool) {
	kinds, total := g.shape.weights(), 0
	for _, w := range kinds {
		total += w.weight
	}
	at := g.random.IntN(total)
	i := 0
	for ; at >= kinds[i].weight; i++ {
		at -= kinds[i].weight
	}
	w := kinds[i]
	s := Step{At: g.now, Kind: w.kind}
	if w.longest > 0 {
		s.For = (w.shortest + time.Duration(g.random.Int64N(int64(w.longest-w.shortest)))).Round(100 * time.Millisecond)
		s.For = min(s.For, length-g.now)
	}
	about, can := g.setTarget(&s)
	if !can || g.until[about] > g.now {
		return Step{}, false
	}
	g.serial[s.Kind]++
	s.Serial, s.About = g.serial[s.Kind], about
	g.until[about] = g.now + s.For
	switch s.Kind {
	case SetClock:
		g.until[about] += clockRest
	case ReplaceCA:
		g.until[about] += caReplacementTime
	}
	g.remember(&s)
	return s, true
}

// setTarget sets a step's target and returns the value for Step.About. The result can is false if the step is not
// possible because no target exists.
func (g *generator) setTarget(s *Step) (about string, can bool) {
	connections := g.shape.connectionNames()
	switch s.Kind {
	case KillPublisher:
		s.Target = fmt.Sprint(g.random.IntN(g.shape.Replicas))
		return replica(s.Target), g.until[allPublishers] <= g.now
	case KillPlanner:
		return string(s.Kind), g.until[allPublishers] <= g.now
	case StopPublishers:
		return allPublishers, g.until[string(KillPlanner)] <= g.now &&
			!slices.ContainsFunc(g.shape.replicas(), func(id string) bool { return g.until[replica(id)] > g.now })
	case KillAgent, StopRuntimeAPI, EditObject, DeleteObject, RestoreRuntime, DeleteManifests, StopServing, LimitObjects,
		CloneRuntime, DeleteNamespace, RevokeKey, RefuseObjects, DeleteOwnKyma:
		if g.shape.Real == 0 {
			return "", false
		}
		s.Target = RealID(g.random.IntN(g.shape.Real))
		if g.shape.isMixed(s.Target) && isDisaster(s.Kind) {
			return "", false // agents of earlier releases have known bugs in disasters
		}
		// A snapshot must not contain the quota of LimitObjects or the policy of RefuseObjects, because a restore would
		// create it again.
		if slices.Contains(onAPIServer, s.Kind) {
			return "API server of " + s.Target, true
		}
		return string(s.Kind) + s.Target, true
	case StopControlAPI, RestoreControl:
		return "API server of the control plane", true
	case CutRuntime:
		s.Target = g.anyRuntime()
		return agentToRegistry(s.Target), true
	case HangWay, ResetWay, SlowWay, ForgetWay:
		s.Target = connections[g.random.IntN(len(connections))]
		return s.Target, true
	case SetClock:
		programs := g.shape.programs()
		s.Target, s.By = programs[g.random.IntN(len(programs))], clockShifts[g.random.IntN(len(clockShifts))]
		return string(s.Kind), true
	case CloseWindow, SuspendRuntime:
		s.Target = g.anyRuntime()
		return string(s.Kind) + s.Target, true
	case AddModule, RemoveModule:
		s.Target = g.anyRuntime()
		return "module of " + s.Target, g.mailer[s.Target] == (s.Kind == RemoveModule)
	case DeleteKyma:
		if len(g.extra) == 0 {
			return "", false
		}
		s.Target = g.extra[g.random.IntN(len(g.extra))]
		return s.Target, true
	case RefuseWrites:
		s.Target = g.anyRuntime()
		return "registry", true
	case StopRegistry, SlowRegistry, FailRegistry, LoseAnswers, FillRegistry, LoseBundles, RestoreRegistry:
		return "registry", true // one registry fault at a time keeps the log readable
	}
	return g.setCommitTarget(s)
}

// onAPIServer lists the kinds of steps that must not overlap on one runtime's API server.
var onAPIServer = []Kind{
	StopRuntimeAPI, RestoreRuntime, CloneRuntime, LimitObjects, DeleteNamespace, RevokeKey, RefuseObjects,
}

// setCommitTarget is like setTarget, for steps that change the rollouts or the visibility of a module.
func (g *generator) setCommitTarget(s *Step) (about string, can bool) {
	switch s.Kind {
	case LoseLabel:
		canaries := g.shape.canaries()
		s.Target = canaries[g.random.IntN(len(canaries))]
		return string(s.Kind) + s.Target, true
	case HideModule:
		return string(s.Kind), !g.shape.Shards // in a shard with a single runtime, the removal limits would allow the removal
	case PutBack, UndoRollout, PauseRollout:
		return string(s.Kind), g.version > 0
	}
	return string(s.Kind), true
}

// allPublishers is the value of Step.About for all publishers.
const allPublishers = "all publishers"

// replica returns the value of Step.About for a publisher.
func replica(id string) string { return "replica " + id }

func isDisaster(kind Kind) bool {
	return slices.ContainsFunc(disasters, func(w weight) bool { return w.kind == kind })
}

func (g *generator) anyRuntime() string {
	all := g.shape.All()
	return all[g.random.IntN(len(all))]
}

// remember updates the generator's state after a step.
func (g *generator) remember(s *Step) {
	switch s.Kind {
	case AddModule, RemoveModule:
		g.mailer[s.Target] = s.Kind == AddModule
	case CreateKyma:
		s.Target = fmt.Sprintf("extra-%d", s.Serial)
		s.About = s.Target // the deletion of the Kyma must not overlap its creation
		g.extra = append(g.extra, s.Target)
	case DeleteKyma:
		g.extra = slices.DeleteFunc(g.extra, func(id string) bool { return id == s.Target })
	case Promote, PromoteBroken, RefuseCommit, MistypeWave:
		g.version++
		s.Target = VersionOf(g.version)
	}
}

// FirstVersion is the initial version of every runtime.
const FirstVersion = "1.0.0"

// VersionOf returns the nth promoted version.
func VersionOf(n int) string { return fmt.Sprintf("1.%d.0", n) }

// Counts returns the number of steps of each kind, one per line.
func Counts(plan []Step) string {
	counts := map[Kind]int{}
	for _, s := range plan {
		counts[s.Kind]++
	}
	var lines strings.Builder
	for _, w := range slices.Concat(weights, network, clocks, disasters, expiry, authorities, shards) {
		if counts[w.kind] > 0 {
			fmt.Fprintf(&lines, "%6d  %s\n", counts[w.kind], w.kind)
		}
	}
	return lines.String()
}
