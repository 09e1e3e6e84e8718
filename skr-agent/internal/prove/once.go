package prove

import (
	"context"
	"slices"
	"sync"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

// jobsSkippedMessage is the message for checks that use a Job. A check run skips these checks.
const jobsSkippedMessage = "a check run does not start Jobs"

// checkRun is a check run, which an operator requests. It runs each of a module's checks once.
type checkRun struct {
	target  Target
	started bool
	// result is the run's result. The run is complete if result.Measured is set.
	result bundle.ReportedCheckRun
}

// HasRun reports whether the latest check run has this ID. The run can still be incomplete.
func (r *Runner) HasRun(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run != nil && r.run.result.ID == id
}

// SetRun replaces the latest check run with a new run of all the target's checks. If problem is not empty, the run
// measures nothing and its result contains the problem.
func (r *Runner) SetRun(id string, t Target, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run = &checkRun{target: t, result: bundle.ReportedCheckRun{ID: id, Module: t.Module, Version: t.Version}}
	if problem != "" {
		r.run.started = true
		r.run.result.Problem, r.run.result.Measured = problem, r.Now().UTC()
	}
	r.wakeUp()
}

// RunResult returns the latest check run's result, or nil if it is not complete.
func (r *Runner) RunResult() *bundle.ReportedCheckRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil || r.run.result.Measured.IsZero() {
		return nil
	}
	result := r.run.result
	return &result
}

// takeRun marks the waiting check run as started and returns it. It returns nil if no run is waiting. known is the
// record for the module's regular checks.
func (r *Runner) takeRun() (run *checkRun, known checks.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil || r.run.started {
		return nil, checks.Record{}
	}
	r.run.started = true
	if m := r.modules[r.run.target.Module]; m != nil && m.Version == r.run.target.Version {
		known = m.Record
		known.States = slices.Clone(m.States)
	}
	return r.run, known
}

// runOnce executes a run's checks and records the results. It drops the results if another run has replaced this run.
func (r *Runner) runOnce(ctx context.Context, run *checkRun, known checks.Record) {
	definitions := slices.Clone(run.target.Definitions)
	for i := range definitions {
		definitions[i].SuccessThreshold, definitions[i].FailureThreshold = 1, 1
		if definitions[i].Job != nil {
			definitions[i].Problem = jobsSkippedMessage
		}
	}
	states := checks.Continue(definitions, nil)
	var all sync.WaitGroup
	for i, d := range definitions {
		if d.Problem != "" {
			continue
		}
		at := slices.IndexFunc(known.States,
			func(s checks.State) bool { return s.Query != "" && s.Query == states[i].Query })
		if at >= 0 {
			states[i].Before = known.States[at].Before
		}
		all.Go(func() {
			r.slots <- struct{}{}
			defer func() { <-r.slots }()
			m := r.Measure(ctx, run.target, d, known.ValueBefore(states[i]))
			states[i] = checks.Next(d, states[i], m, r.Now().UTC())
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return // the process is shutting down, which interrupted the measurements
	}
	r.mu.Lock()
	run.result.Checks, run.result.Measured = checks.ReportedChecks(states), r.Now().UTC()
	r.mu.Unlock()
	r.OnChange()
}
