// Package prove runs module checks after the modules have become ready. Its input is the modules with their checks. Its
// output is the results for the report, and records of the measurements that the agent saves.
//
// A single timer starts the next measurement. Checks run concurrently, so that a slow endpoint does not delay other
// checks.
package prove

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/internal/images"
)

const (
	// workers limits concurrent measurements for all modules together. workersPerModule limits them for one module, so
	// that a module with slow checks does not delay other modules.
	workers, workersPerModule = 8, 2
	// roundingInterval is the resolution of measurement times. Times are rounded up, so that many checks cause few
	// wake-ups.
	roundingInterval = time.Second
	// measureBeforeTimeout limits the time for measurements before an upgrade.
	measureBeforeTimeout = 30 * time.Second
	// saveInterval is the minimum time between two saves if only the number of measurements changed, but no result.
	saveInterval = 5 * time.Minute
)

// Target is a version of a module and the checks to measure for it.
type Target struct {
	Module, Version string
	// User is the account that installs the module. It is empty for the agent's own account.
	User string
	// Namespaces are the namespaces of the module's objects.
	Namespaces  []string
	Definitions []checks.Definition
	// CheckFor is how long checks run after the module becomes ready.
	CheckFor time.Duration
	// Images contains the rules for the images of the module's Jobs.
	Images images.ModuleRules
	// Installed is true if the runtime runs this version of the module. Ready is true if this version is also ready.
	Installed, Ready bool
}

// Options configure a Runner.
type Options struct {
	// Measure runs a check once, within the check's timeout.
	Measure func(ctx context.Context, t Target, d checks.Definition, before string) checks.Measurement
	// ValueBefore returns the value of a check before an upgrade, for comparison. It returns "" if the check does not
	// compare values.
	ValueBefore func(context.Context, Target, checks.Definition) string
	// OnChange is called after a check's result changed.
	OnChange func()
	Now      func() time.Time
}

// Runner runs checks. It is safe for concurrent use.
type Runner struct {
	Options
	wake  chan struct{}
	slots chan struct{}

	mu      sync.Mutex // guards the fields below
	modules map[string]*module
	running map[runningCheck]bool
	// run is the latest check run, or nil.
	run *checkRun
	// saved contains the records that the agent last saved, at the time savedAt.
	saved   []checks.Record
	savedAt time.Time
}

type module struct {
	checks.Record
	target Target
}

type runningCheck struct{ module, version, check string }

// New returns a Runner without modules.
func New(options Options) *Runner {
	return &Runner{
		Options: options, wake: make(chan struct{}, 1), slots: make(chan struct{}, workers),
		modules: map[string]*module{}, running: map[runningCheck]bool{},
	}
}

// Restore restores the records that a previous process saved. The next call to Set drops the records for modules that
// are not among its targets.
func (r *Runner) Restore(records []checks.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range records {
		r.modules[record.Module] = &module{Record: record}
	}
	r.saved, r.savedAt = r.copyRecords(), r.Now()
}

// Set replaces the modules whose checks run. If a module's version changes, its checks are measured from the beginning.
// An installed version without a record counts as an upgrade without values from before the upgrade, because the checks
// can be newer than the upgrade.
func (r *Runner) Set(targets []Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[string]*module{}
	for _, t := range targets {
		m := r.modules[t.Module]
		if m == nil || m.Version != t.Version {
			if !t.Installed {
				// Skip a version that is not installed yet. RecordInstallations or MeasureBefore adds it.
				continue
			}
			m = &module{Record: checks.Record{Module: t.Module, Version: t.Version, Upgrade: true}}
		}
		m.target, m.States = t, checks.Continue(t.Definitions, m.States)
		m.recordDefined(r.Now().UTC())
		if t.Ready && m.Ready.IsZero() {
			m.Ready = r.Now().UTC()
		}
		next[t.Module] = m
	}
	r.modules = next
	r.wakeUp()
}

// recordDefined sets the time of checks that were added or edited after the module became ready. Otherwise, their time
// could already have ended.
func (m *module) recordDefined(now time.Time) {
	for i := range m.States {
		if s := &m.States[i]; !m.Ready.IsZero() && s.Measured.IsZero() && s.Since.IsZero() {
			s.Since = now
		}
	}
}

// RecordInstallations records modules before their first installation. Their checks have no value before an upgrade.
func (r *Runner) RecordInstallations(targets []Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range targets {
		r.addRecord(t, false)
	}
}

// addRecord adds a record for a version that is not installed yet. It returns nil if the version is already known. The
// caller must hold mu.
func (r *Runner) addRecord(t Target, isUpgrade bool) *module {
	if known := r.modules[t.Module]; known != nil && known.Version == t.Version {
		return nil
	}
	m := &module{
		Record: checks.Record{
			Module: t.Module, Version: t.Version, Upgrade: isUpgrade, States: checks.Continue(t.Definitions, nil),
		},
		target: t,
	}
	r.modules[t.Module] = m
	return m
}

// MeasureBefore measures the values of checks once before an upgrade, for comparison with the values after the upgrade.
// It takes at most 30 seconds.
func (r *Runner) MeasureBefore(ctx context.Context, targets []Target) {
	ctx, cancel := context.WithTimeout(ctx, measureBeforeTimeout)
	defer cancel()
	var modules errgroup.Group
	for _, t := range targets {
		r.mu.Lock()
		m := r.addRecord(t, true)
		r.mu.Unlock()
		if m == nil {
			continue
		}
		modules.Go(func() error {
			r.measureBefore(ctx, t, m)
			return nil
		})
	}
	_ = modules.Wait() // ignore the error, which is always nil
}

// measureBefore measures the values of a module's checks before an upgrade.
func (r *Runner) measureBefore(ctx context.Context, t Target, m *module) {
	var group errgroup.Group
	group.SetLimit(workersPerModule)
	for i, d := range t.Definitions {
		if d.PromQL == nil && d.HTTP == nil {
			continue
		}
		group.Go(func() error {
			value := bundle.Bounded(r.ValueBefore(ctx, t, d), bundle.MaxCheckValueBytes)
			r.mu.Lock()
			defer r.mu.Unlock()
			m.States[i].Before = value
			return nil
		})
	}
	_ = group.Wait() // ignore the error, which is always nil
}

// Results returns the check results for a module version, sorted by check name. It returns nil if the version has never
// been ready.
func (r *Runner) Results(name, version string) []bundle.ReportedCheck {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.modules[name]
	if m == nil || m.Version != version || m.Ready.IsZero() {
		return nil
	}
	return checks.ReportedChecks(m.States)
}

// UnsavedRecords returns all records, and whether the agent must save them. If only counts change, a save is not
// required until saveInterval has passed.
func (r *Runner) UnsavedRecords() ([]checks.Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.copyRecords()
	if !slices.EqualFunc(now, r.saved, hasSameResults) {
		return now, true
	}
	return now, r.Now().Sub(r.savedAt) >= saveInterval &&
		!slices.EqualFunc(now, r.saved, func(a, b checks.Record) bool {
			return slices.Equal(a.States, b.States)
		})
}

// MarkSaved marks these records as saved.
func (r *Runner) MarkSaved(records []checks.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved, r.savedAt = records, r.Now()
}

func hasSameResults(a, b checks.Record) bool {
	return a.Module == b.Module && a.Version == b.Version && a.Upgrade == b.Upgrade && a.Ready.Equal(b.Ready) &&
		slices.EqualFunc(a.States, b.States, func(a, b checks.State) bool {
			return a.Of == b.Of && a.Name == b.Name && a.Result == b.Result && a.Row == b.Row && a.Before == b.Before
		})
}

// copyRecords returns copies of all records, sorted by module.
func (r *Runner) copyRecords() []checks.Record {
	records := make([]checks.Record, 0, len(r.modules))
	for _, name := range slices.Sorted(maps.Keys(r.modules)) {
		record := r.modules[name].Record
		record.States = slices.Clone(record.States)
		records = append(records, record)
	}
	return records
}

func (r *Runner) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}
