package chaos

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Invariant is a property that the fleet must have at all times, as a sentence for the log.
type Invariant string

// Invariants.
const (
	Signed    Invariant = "every bundle in a runtime is signed"
	Meant     Invariant = "only assigned versions are installed"
	Assigned  Invariant = "versions follow rollouts and maintenance windows"
	Kept      Invariant = "only requested objects are deleted"
	Sequences Invariant = "sequences never decrease"
	Statuses  Invariant = "statuses match reports and never return to an older state"
	Whole     Invariant = "only complete commits are published"
	Cloned    Invariant = "two agents with one key change nothing"
	Withheld  Invariant = "suspended runtimes and revoked keys get no bundle"
	Progress  Invariant = "requests take effect, and rollouts end"
	Budget    Invariant = "a rollout's budget is never exceeded"
	Alive     Invariant = "no program panics"
	Converged Invariant = "the fleet converges, and nothing is left over"
	Flat      Invariant = "memory and goroutines do not grow"
)

// Violation is an observation that contradicts an invariant.
type Violation struct {
	At        time.Duration
	Invariant Invariant
	What      string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s", v.Invariant, v.What) }

// Checker checks observations against the invariants. Its callers observe the fleet and pass each observation to it.
//
// Before a caller changes the fleet, it must announce the change with a method such as Asked, Promoted or Deleted.
type Checker struct {
	mu         sync.Mutex // guards the fields below
	violations []Violation
	checks     map[Invariant]int

	staged           string // the module that rolls out in waves
	concurrent       int    // maximum number of non-canary runtimes without a result for a new version
	unpoliced        bool
	versions         map[string]map[string]bool // promoted versions by module
	broken           map[string]bool            // versions that fail in every canary
	runtimes         map[string]*observations
	rollouts         map[string]string
	enteredAt        map[string]time.Duration                // time when a rollout entered its state
	undone           map[string]bool                         // rollouts that users reverted
	objectsSeen      map[string]map[string]map[string]string // UIDs by runtime, module, and object
	kymas            []string                                // names of the control plane's Kymas
	proven           map[string]bool                         // staged versions that a canary reported as Ready
	withdrawn        map[string]bool                         // versions that a user took back
	downtime         map[string]bool                         // modules and versions that require downtime
	incomplete       map[string]bool                         // versions of commits that cannot be applied
	previousRollouts []ObservedRollout                       // rollouts in the previous observation
	// upgrades and downgrades are version changes of the module with rollouts. The next call to Rollouts must check
	// them.
	upgrades, downgrades []assignedVersion
	// undefined maps each runtime to the last time when a user deleted its Manifest CRD.
	undefined map[string]time.Duration
	// restoring maps each runtime to the number of its restores in progress. restored maps each runtime to the time of
	// its last restore. The key of the control plane is an empty string.
	restoring map[string]int
	restored  map[string]time.Duration
	// fine maps each key of checkDuration to the last time when the problem with this key did not exist.
	fine map[string]time.Duration
	// planLag is how long the publishers can follow an outdated plan after the planner has changed a rollout.
	planLag time.Duration
	// mandatory contains the modules that were mandatory at any time. A restore of the control plane also brings back
	// deleted Kymas, which get these modules.
	mandatory map[string]bool
	// bundlesLostAt is the last time when the registry lost bundles.
	bundlesLostAt time.Duration
	// rotatedAt is the time of the last rotation of the publisher's key, or 0.
	rotatedAt time.Duration
	// leaseTakenAt is the last time when a user took the Lease from the leading publisher, or 0.
	leaseTakenAt time.Duration
}

// requestGrace is how long a runtime can still remove a module after its admin has requested the module again. This
// time is longer than the longest fault.
const requestGrace = 2 * time.Minute

// twoLeadersTime is how long two publishers can be leaders after a user took the Lease from one of them. During this
// time, the former leader can push an older bundle after a newer one. Runtimes must refuse that bundle.
const twoLeadersTime = 15 * time.Second

// NewChecker returns a checker for a fleet. staged is the only module with rollouts. The argument
// concurrent is the maximum number of non-canary runtimes without a result for a new version.
func NewChecker(staged string, concurrent int) *Checker {
	return &Checker{
		staged: staged, concurrent: concurrent, checks: map[Invariant]int{}, versions: map[string]map[string]bool{},
		broken: map[string]bool{}, mandatory: map[string]bool{},
		runtimes: map[string]*observations{}, rollouts: map[string]string{}, undone: map[string]bool{},
		enteredAt:   map[string]time.Duration{},
		objectsSeen: map[string]map[string]map[string]string{},
		incomplete:  map[string]bool{},
		proven:      map[string]bool{}, withdrawn: map[string]bool{}, downtime: map[string]bool{},
		undefined: map[string]time.Duration{}, restoring: map[string]int{}, restored: map[string]time.Duration{},
		fine: map[string]time.Duration{},
	}
}

func (c *Checker) of(runtime string) *observations {
	s := c.runtimes[runtime]
	if s == nil {
		s = &observations{
			asked: map[string]time.Duration{}, unasked: map[string]time.Duration{}, wants: map[string]bool{},
			signed: map[string]map[string]bool{}, removed: map[string]Push{}, present: map[string]string{},
			deleted: map[string]time.Duration{}, requests: map[int64][]string{},
			reports: map[int64]Reported{}, formerKeys: map[string]bool{}, revoked: map[string]time.Duration{},
			replacedKeys: map[string]bool{}, instances: map[string]Reported{},
			announced: map[string]Push{}, hasRun: map[string]bool{}, install: newInstallation(),
		}
		c.runtimes[runtime] = s
	}
	return s
}

// Break records a violation that code outside the checker has found.
func (c *Checker) Break(at time.Duration, invariant Invariant, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(at, invariant, format, args...)
}

func (c *Checker) fail(at time.Duration, invariant Invariant, format string, args ...any) {
	c.violations = append(c.violations, Violation{at, invariant, fmt.Sprintf(format, args...)})
}

// check counts one check of an invariant, and records a violation if the invariant does not hold.
func (c *Checker) check(at time.Duration, invariant Invariant, holds bool, format string, args ...any) {
	c.checks[invariant]++
	if !holds {
		c.fail(at, invariant, format, args...)
	}
}

// Violations returns all violations.
func (c *Checker) Violations() []Violation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Checks returns how often each invariant was checked.
func (c *Checker) Checks() map[Invariant]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.checks)
}

// The following methods announce changes.

// Asked announces that a runtime requests modules.
func (c *Checker) Asked(at time.Duration, runtime string, modules ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range modules {
		c.of(runtime).asked[m], c.of(runtime).wants[m] = at, true
	}
}

// RequestWithdrawn announces that a runtime does not request these modules anymore. The checker then expects their
// removal.
func (c *Checker) RequestWithdrawn(at time.Duration, runtime string, modules ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range modules {
		c.of(runtime).unasked[m], c.of(runtime).wants[m] = at, false
	}
}

// Promoted announces that a version is promoted to a channel. broken is true if the version fails in
// every canary.
func (c *Checker) Promoted(module, version string, broken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.versions[module] == nil {
		c.versions[module] = map[string]bool{}
	}
	c.versions[module][version] = true
	if broken {
		c.broken[version] = true
	}
}

// TookLease announces that a user takes the Lease from the leading publisher.
func (c *Checker) TookLease(at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaseTakenAt = at
}

// hasSingleLeader reports whether at most one publisher can be the leader at this time.
func (c *Checker) hasSingleLeader(at time.Duration) bool {
	return c.leaseTakenAt == 0 || at-c.leaseTakenAt > twoLeadersTime
}

// PolicyRemoved records that no rollout policy applies anymore, so a version can reach all runtimes at once.
func (c *Checker) PolicyRemoved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unpoliced = true
}

// Undone records that a user reverts a rollout.
func (c *Checker) Undone(rollout string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undone[rollout] = true
}

// Deleted announces that a user deletes a module object.
func (c *Checker) Deleted(at time.Duration, runtime, object string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(runtime).deleted[object] = at
}

// CRDDeleted announces that a user deletes the Manifest CRD in a runtime. The modules' objects must stay.
func (c *Checker) CRDDeleted(at time.Duration, runtime string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undefined[runtime] = at
}

// mayBeRemoved reports whether a bundle is allowed to remove the module, because its removal was requested recently.
func (s *observations) mayBeRemoved(at time.Duration, module string) bool {
	_, unasked := s.unasked[module]
	return unasked && (!s.wants[module] || at-s.asked[module] < requestGrace)
}

// mayBeMissing reports whether a runtime is allowed to lack a module. It is allowed if the module's removal was
// requested. It is also allowed until the runtime has applied a newer bundle than the one with the removal.
func (s *observations) mayBeMissing(at time.Duration, module string) bool {
	removing, removed := s.removed[module]
	return s.mayBeRemoved(at, module) || removed && !removing.isBefore(s.lastReport.Epoch, s.lastReport.Observed)
}

// Wanted returns the modules that a runtime must have.
func (c *Checker) Wanted(runtime string) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := map[string]bool{}
	for module, wants := range c.of(runtime).wants {
		if wants {
			wanted[module] = true
		}
	}
	return wanted
}

// count adds one to the number of an invariant's checks. Code outside the checker calls count for its own checks.
func (c *Checker) count(invariant Invariant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checks[invariant]++
}
