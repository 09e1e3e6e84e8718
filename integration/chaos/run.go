package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// Options describe a run.
type Options struct {
	Seed   uint64
	Length time.Duration
	Shape  Shape
	// Soak executes only users' actions, and checks whether the resource usage of the programs grows.
	Soak bool
	// Dir is the folder for the programs' logs and story.txt.
	Dir string
	// Live receives each line of the log immediately. Progress receives a line for each long operation during the
	// setup.
	Live, Progress io.Writer
}

// Outcome is the result of a run.
type Outcome struct {
	Violations []Violation
	// Checks counts the checks of each invariant. Injected counts the executed steps of each kind.
	Checks   map[Invariant]int
	Injected map[Kind]int
	Story    *Story
	// Bundles is the result of Checker.Bundles.
	Bundles string
	// Trends are the results of a soak, sorted by name.
	Trends []Trend
}

// calmSpace is the size of the registry's disk in bytes in a run without faults.
const calmSpace = 8 << 30

// troubledSpace returns the size of the registry's disk in bytes in a run with faults that fill the disk. A run of an
// hour with restores and copies of runtimes writes about 7 MiB per minute. The plan can take longer than its length,
// because the faults of one runtime wait for each other.
func troubledSpace(length time.Duration) int64 {
	return 512<<20 + int64(length.Minutes())*16<<20
}

// Run executes the plan for a seed. The outcome contains the violations. Run returns an error if it could not complete
// the plan.
func Run(ctx context.Context, options Options) (Outcome, error) {
	checker := NewChecker(scaler, concurrentOthers)
	plan, space := Generate(options.Seed, options.Shape, options.Length), troubledSpace(options.Length)
	if options.Soak {
		plan, space = Calm(plan), calmSpace
	}
	s := &stage{
		plan: plan, space: space, shape: options.Shape, dir: options.Dir, checker: checker, began: time.Now(),
		reals: map[string]*fleet.Runtime{}, connections: map[string]*fleet.Proxy{}, sims: map[string]*fleet.Simulated{},
		programs: map[string]*program{}, gone: map[string]bool{}, mailers: map[string]bool{}, injected: map[Kind]int{},
		enrolling: map[string]bool{},
		copies:    map[string]*fleet.Runtime{}, snapshots: map[string]int{},
	}
	s.story = NewStory(s.began, options.Live)
	s.tap = &tap{
		checker: checker, since: s.since, bodies: map[*http.Request][]byte{}, blobs: map[digest.Digest][]byte{},
		acceptedAt: map[int64]time.Duration{},
	}
	err := s.run(ctx, options)
	outcome := Outcome{
		Violations: checker.Violations(), Checks: checker.Checks(), Injected: s.injected, Story: s.story,
		Trends: s.trends, Bundles: checker.Bundles(),
	}
	return outcome, errors.Join(err, s.close())
}

func (s *stage) run(ctx context.Context, options Options) error {
	if err := s.start(ctx, options.Progress); err != nil {
		return fmt.Errorf("start the fleet: %w", err)
	}
	if problems := s.converge(ctx, FirstVersion); len(problems) > 0 {
		return fmt.Errorf("the fleet did not converge before the first fault:\n%s", strings.Join(problems, "\n"))
	}
	if err := s.createUsersObjects(ctx); err != nil {
		return err
	}
	before := s.sample(ctx) // before the snapshots, because a publisher that then loses its lease uses fewer resources
	if err := errors.Join(s.copyRegistry(), s.takeSnapshots()); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	var watches sync.WaitGroup
	watches.Go(func() { s.watch(watching) })
	defer watches.Wait()
	defer stop()

	s.story.Add("the fleet has converged; the plan starts")
	if options.Soak {
		if err := s.soak(ctx, options.Length); err != nil {
			return err
		}
	} else {
		s.execute(ctx)
	}
	s.story.Add("the plan has ended")
	s.finishRollouts(ctx)
	s.promoteLastVersion(ctx)
	began := time.Now()
	if problems := s.converge(ctx, lastVersion); len(problems) > 0 {
		s.explain(ctx)
		for _, p := range problems {
			s.checker.Break(s.since(), Converged, "%s after the faults: %s", convergeTimeout, p)
		}
	} else {
		s.story.Add("the fleet has converged after %s", time.Since(began).Round(time.Second))
	}
	s.checker.count(Converged)
	for _, p := range Grown(before, s.sample(ctx)) {
		s.checker.Break(s.since(), Flat, "%s", p)
	}
	s.checker.count(Flat)
	s.readLogs()
	return ctx.Err()
}

// execute starts each step at its planned time, and returns when all steps have ended.
func (s *stage) execute(ctx context.Context) {
	began := time.Now()
	var steps sync.WaitGroup
	for _, step := range s.plan {
		select {
		case <-time.After(time.Until(began.Add(step.At))):
		case <-ctx.Done():
			steps.Wait()
			return
		}
		if v := s.checker.Violations(); len(v) > 0 {
			s.story.Add("VIOLATION: %s", v[0])
			break
		}
		steps.Go(func() { s.take(ctx, step) })
	}
	steps.Wait()
}

// take locks the object and returns a function that unlocks it.
func (t *objectLocks) take(about string) (end func()) {
	t.mu.Lock()
	if t.taken == nil {
		t.taken = map[string]chan struct{}{}
	}
	turn, known := t.taken[about]
	if !known {
		turn = make(chan struct{}, 1)
		t.taken[about] = turn
	}
	t.mu.Unlock()
	turn <- struct{}{}
	return func() { <-turn }
}

// takeAll locks the objects in this order and returns a function that unlocks them.
func (t *objectLocks) takeAll(all []string) (end func()) {
	var ends []func()
	for _, about := range all {
		ends = append(ends, t.take(about))
	}
	return func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}
}

// identities is the name of the lock for steps that change the keys, the data or the trusted CAs of runtimes.
const identities = "identities"

// lockedObjects returns the objects that other steps must not change during the step. While a copy of a runtime runs,
// other steps must not stop the original agent or its connections: if the original is silent for three poll intervals,
// the copy counts as the only agent. DeleteNamespace stops and starts the agent itself.
func (s Step) lockedObjects() []string {
	if s.Kind != CloneRuntime && s.Kind != DeleteNamespace {
		return []string{s.About}
	}
	return []string{s.About, string(KillAgent) + s.Target, agentToRegistry(s.Target), agentToAPI(s.Target)}
}

// take executes a step after the end of all earlier steps that change the same objects.
func (s *stage) take(ctx context.Context, step Step) {
	if slices.Contains([]Kind{CloneRuntime, RestoreRuntime, DeleteNamespace, RevokeKey, ReplaceCA}, step.Kind) {
		defer s.locks.take(identities)() // taken first, because ReplaceCA also takes the locks of all runtimes
	}
	defer s.locks.takeAll(step.lockedObjects())()
	if ctx.Err() != nil {
		return // the run was interrupted while the step waited for other steps
	}
	s.story.Add("%s", step)
	end, fault, err := s.startFault(ctx, step)
	if !errors.Is(err, errImpossible) {
		s.mu.Lock()
		s.injected[step.Kind]++
		s.mu.Unlock()
	}
	if fault {
		if err != nil {
			s.story.Add("%s: %v", step, err)
		}
		if end != nil {
			s.wait(ctx, step)
			s.insist(context.WithoutCancel(ctx), "end: "+step.String(), end)
		}
		return
	}
	begin, finish := s.twoSided(step)
	s.insist(ctx, step.String(), func() error { return begin(ctx) })
	if finish != nil {
		s.wait(ctx, step)
		s.insist(ctx, "end: "+step.String(), func() error { return finish(ctx) })
	}
}

func (s *stage) wait(ctx context.Context, step Step) {
	select {
	case <-time.After(step.For):
	case <-ctx.Done():
	}
	s.story.Add("end: %s", step)
}

// converge waits until all runtimes have their requested modules. If it times out, it returns the remaining problems.
func (s *stage) converge(ctx context.Context, version string) []string {
	var problems []string
	// Ignore the error, because the returned problems describe the timeout.
	_ = fleet.Until(ctx, convergeTimeout, "everything converges", func() (bool, string) {
		problems = Judge(s.ends(ctx, version))
		if len(problems) > 0 {
			for _, p := range s.programs {
				s.revive(p)
			}
			s.approveRemovals(ctx)
		}
		return len(problems) == 0, ""
	})
	return problems
}

// finishRollouts waits until all rollouts of the plan have ended. Without this check, the last promotion would replace
// a rollout that never ends, and hide the problem.
func (s *stage) finishRollouts(ctx context.Context) {
	var unfinished []string
	err := fleet.Until(ctx, convergeTimeout, "all rollouts end", func() (bool, string) {
		var rollouts v1alpha1.RolloutList
		if err := s.fleet.Control.List(ctx, &rollouts, client.InNamespace(sample.Namespace)); err != nil {
			return false, err.Error()
		}
		unfinished = Unfinished(observedRollouts(rollouts.Items))
		s.approveWaves(ctx, rollouts.Items)
		return len(unfinished) == 0, strings.Join(unfinished, ", ")
	})
	s.checker.count(Converged)
	if err != nil && ctx.Err() == nil {
		s.explain(ctx)
		s.checker.Break(s.since(), Converged, "%s after the faults, rollouts have not ended: %s", convergeTimeout,
			strings.Join(unfinished, ", "))
	}
}

func (s *stage) ends(ctx context.Context, version string) []End {
	s.mu.Lock()
	gone := maps.Clone(s.gone)
	s.mu.Unlock()
	var ends []End
	for id, sim := range s.simulated() {
		ends = append(ends, s.completeFinalState(ctx, End{Runtime: id, Has: sim.All(), Gone: gone[id]}, version))
	}
	for id, r := range s.reals {
		e := End{Runtime: id}
		var err error
		if e.Has, err = installed(ctx, r); err != nil {
			e.Has = map[string]string{"error": err.Error()}
		}
		e = s.completeFinalState(ctx, e, version)
		for module := range objectsOf {
			objects, err := objectsIn(ctx, r, module)
			if err != nil {
				objects = map[string]string{err.Error(): ""}
			}
			e.Objects = slices.AppendSeq(e.Objects, maps.Keys(objects))
			if e.Wanted[module] == "" {
				continue
			}
			for _, o := range objectsOf[module] {
				e.Expected = append(e.Expected, nameOf(o))
			}
		}
		ends = append(ends, e)
	}
	slices.SortFunc(ends, func(a, b End) int { return strings.Compare(a.Runtime, b.Runtime) })
	return ends
}

// completeFinalState completes the final state of a runtime: it adds the requested modules, and the state in the
// control plane and the registry.
func (s *stage) completeFinalState(ctx context.Context, e End, version string) End {
	e.Wanted = map[string]string{}
	for module := range s.checker.Wanted(e.Runtime) {
		e.Wanted[module] = map[string]string{scaler: version, mailer: mailerVersion}[module]
	}
	kyma := &v1beta2.Kyma{}
	err := s.fleet.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: e.Runtime}, kyma)
	if client.IgnoreNotFound(err) != nil {
		e.State = err.Error()
		return e
	}
	if err == nil {
		e.State = string(kyma.Status.State)
		if e.State == "" {
			e.State = "new"
		}
	}
	if status := kyma.Status.Runtime; status != nil && status.Published != nil {
		e.Published = s.tap.contentOf(status.Published.Digest)
		if status.Observed != nil {
			e.Observed = s.tap.contentOf(status.Observed.Digest)
			e.RevokedKey = s.tap.revokedSigner(status.Observed.Digest)
		}
	}
	repository, err := s.fleet.Place.Reading(ctx, bundle.DesiredRepository(e.Runtime))
	if err == nil {
		if newest, err := store.Head(ctx, repository, bundle.TagDesired); err == nil {
			e.InRegistry = s.tap.contentOf(newest.String())
		}
	}
	return e
}

// explain adds the output of `kcp-publisher status`, `kcp-publisher rollout list` and `kcp-publisher why` to the log.
func (s *stage) explain(ctx context.Context) {
	output, _ := s.fleet.Ask(ctx, "status")
	s.story.Add("kcp-publisher status:\n%s", output)
	output, _ = s.fleet.Ask(ctx, "rollout", "list")
	s.story.Add("kcp-publisher rollout list:\n%s", output)
	for _, e := range s.ends(ctx, lastVersion) {
		if len(Judge([]End{e})) > 0 {
			output, _ = s.fleet.Why(ctx, e.Runtime)
			s.story.Add("kcp-publisher why %s:\n%s", e.Runtime, output)
			if sim := s.simulated()[e.Runtime]; sim != nil {
				s.story.Add("%s: problems %v", e.Runtime, sim.LastError())
			}
		}
	}
}

// readLogs checks the logs for panics and data races.
func (s *stage) readLogs() {
	logs, _ := filepath.Glob(filepath.Join(s.dir, "*.log"))
	for _, path := range logs {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		s.checker.count(Alive)
		for _, sign := range []string{"panic:", "Observed a panic", "DATA RACE"} {
			if at := strings.Index(string(data), sign); at >= 0 {
				s.checker.Break(s.since(), Alive, "%s: %s", filepath.Base(path), data[at:min(len(data), at+2000)])
			}
		}
	}
}
