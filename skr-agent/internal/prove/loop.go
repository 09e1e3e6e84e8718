package prove

import (
	"context"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/internal/checks"
)

type measurement struct {
	key         runningCheck
	target      Target
	definition  checks.Definition
	valueBefore string
}

// Start runs module checks when they are due, until ctx is done.
func (r *Runner) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, next := r.takeDue(r.Now())
		for _, m := range due {
			go r.runMeasurement(ctx, m)
		}
		if run, known := r.takeRun(); run != nil {
			go r.runOnce(ctx, run, known)
		}
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-r.wake:
		}
	}
}

// takeDue marks due measurements as running and returns them. It returns at most workersPerModule measurements per
// module. next is the time until the next measurement, or 0 if no measurement is planned.
func (r *Runner) takeDue(now time.Time) (due []measurement, next time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var earliest time.Time
	busy := map[string]int{}
	for key := range r.running {
		busy[key.module]++
	}
	for _, m := range r.modules {
		for i, d := range m.target.Definitions {
			at, measured := checks.NextMeasurement(d, m.States[i], m.Ready, m.target.CheckFor)
			key := runningCheck{m.Module, m.Version, d.Name}
			if !measured || r.running[key] {
				continue
			}
			if at.After(now.Add(d.Interval.Duration)) {
				at = now // the clock was set back after the last measurement
			}
			if !at.After(now) {
				if busy[m.Module] >= workersPerModule {
					continue
				}
				busy[m.Module]++
				r.running[key] = true
				due = append(due, measurement{key, m.target, d, m.ValueBefore(m.States[i])})
			} else if earliest.IsZero() || at.Before(earliest) {
				earliest = at
			}
		}
	}
	if !earliest.IsZero() {
		next = max(earliest.Add(roundingInterval-1).Truncate(roundingInterval).Sub(now), time.Millisecond)
	}
	return due, next
}

// runMeasurement runs a check once and records the outcome.
func (r *Runner) runMeasurement(ctx context.Context, m measurement) {
	r.slots <- struct{}{}
	outcome := r.Measure(ctx, m.target, m.definition, m.valueBefore)
	<-r.slots
	if ctx.Err() != nil {
		return // the process is shutting down, so the measurement was interrupted
	}
	if r.recordOutcome(m, outcome) {
		r.OnChange()
	}
	r.wakeUp()
}

// recordOutcome records a measurement's outcome, and reports whether the outcome requires a new report. It ignores the
// outcome if the module or the check changed during the measurement.
func (r *Runner) recordOutcome(taken measurement, outcome checks.Measurement) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, taken.key)
	m := r.modules[taken.key.module]
	if m == nil || m.Version != taken.key.version {
		return false
	}
	of := checks.Continue([]checks.Definition{taken.definition}, nil)[0].Of
	for i := range m.States {
		if s := m.States[i]; s.Name == taken.key.check && s.Of == of {
			m.States[i] = checks.Next(taken.definition, s, outcome, r.Now().UTC())
			before, after := []checks.State{s}, []checks.State{m.States[i]}
			return m.States[i].Result != s.Result ||
				!slices.Equal(checks.WithoutValues(checks.ReportedChecks(before)),
					checks.WithoutValues(checks.ReportedChecks(after)))
		}
	}
	return false
}
