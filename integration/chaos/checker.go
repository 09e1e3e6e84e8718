package chaos

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Invariant is a promise that holds at every moment.
type Invariant string

// Invariants.
const (
	Signed    Invariant = "what reaches a runtime is signed"
	Meant     Invariant = "what is installed was meant"
	Kept      Invariant = "nothing is deleted that nobody asked to delete"
	Sequences Invariant = "sequences never go back"
	Statuses  Invariant = "statuses never go back"
	Budget    Invariant = "a rollout's budget is never exceeded"
	Alive     Invariant = "no program panics"
	Converged Invariant = "everything converges, with nothing left over"
	Flat      Invariant = "memory and goroutines do not grow"
)

// Violation is a promise that was broken.
type Violation struct {
	At        time.Duration
	Invariant Invariant
	What      string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s", v.Invariant, v.What) }

// Push is a bundle that the registry took for a runtime.
type Push struct {
	Runtime  string
	Digest   string
	Epoch    int64
	Sequence int64
	// Versions are the modules in it, Removals those that it removes.
	Versions map[string]string
	Removals []string
	Deleting bool
	// Ahead says that its sequence is one that nobody with a right clock gives: it follows one of a publisher whose clock
	// was ahead, or is that.
	Ahead bool
	// Refused is why nobody may follow it, nil for a bundle that a publisher key of the root signed.
	Refused error
}

// Said is a report that the registry took from a runtime.
type Said struct {
	Runtime  string
	Sequence int64
	// Epoch and Observed are the epoch and sequence of the bundle that it is about, 0 for none.
	Epoch, Observed int64
	// Answered are the versions of modules of which it says how they went.
	Answered map[string]string
	// Waiting are the modules whose newest version waits for a window. Agents do not say which version that is.
	Waiting map[string]bool
	// Ahead says that the runtime's clock is further ahead than control planes accept: they refuse the report, and later
	// ones need not be newer.
	Ahead bool
}

// Record is what the control plane says of a runtime.
type Record struct {
	Runtime, UID        string
	Epoch               int64
	Published, Observed int64
	// Key is the runtime's, and Report the sequence of the newest report that it signed.
	Key    string
	Report int64
}

// Checker judges what was seen, one thing after the other. It looks at nothing itself.
//
// It knows what was meant because whoever does something tells it before: Asked, Unasked, Promoted and Deleted.
type Checker struct {
	mu         sync.Mutex // guards what follows
	violations []Violation
	checks     map[Invariant]int

	staged      string // the module that rollouts are for
	concurrent  int    // how many runtimes but canaries may have a version that they did not answer
	unpoliced   bool
	versions    map[string]map[string]bool // by module, all that were ever promoted
	broken      map[string]bool            // versions that no canary can run
	runtimes    map[string]*seen
	rollouts    map[string]string
	undone      map[string]bool                         // rollouts that people took back
	objectsSeen map[string]map[string]map[string]string // UIDs by runtime, module, and object
	kymas       []string                                // those of the control plane
	leaderless  time.Duration                           // when people last took the lease from the publisher that had it, and 0 for never
}

// seen is what the checker knows of a runtime.
type seen struct {
	asked, unasked map[string]time.Duration // when, newest; both are there for a module that was asked for again
	wants          map[string]bool
	pushed         *Push
	signed         map[string]map[string]bool // by module, versions in bundles for this runtime
	removed        map[string]Push            // the newest signed bundle that removes it, by module
	open           string                     // the newer version of the staged module that it did not answer yet
	openSince      int64                      // sequence of the bundle that brought it first
	said           Said
	record         Record
	present        map[string]string
	deleted        map[string]time.Duration // objects that users deleted, and when
}

// excuse is how long a wish that was taken back may still have effects: what is broken meanwhile lasts for less.
const excuse = 2 * time.Minute

// twoLeaders is how long two publishers may take themselves for the leader after people took the lease from one: until
// it looks at it again, and what it has begun by then is done, also by a slow registry. A registry takes an older tag
// after a newer one. Runtimes refuse it, which is judged at any time.
const twoLeaders = 15 * time.Second

// NewChecker returns one for a fleet whose rollouts are for one module.
func NewChecker(staged string, concurrent int) *Checker {
	return &Checker{
		staged: staged, concurrent: concurrent, checks: map[Invariant]int{}, versions: map[string]map[string]bool{}, broken: map[string]bool{},
		runtimes: map[string]*seen{}, rollouts: map[string]string{}, undone: map[string]bool{}, objectsSeen: map[string]map[string]map[string]string{},
	}
}

func (c *Checker) of(runtime string) *seen {
	s := c.runtimes[runtime]
	if s == nil {
		s = &seen{
			asked: map[string]time.Duration{}, unasked: map[string]time.Duration{}, wants: map[string]bool{},
			signed: map[string]map[string]bool{}, removed: map[string]Push{}, present: map[string]string{}, deleted: map[string]time.Duration{},
		}
		c.runtimes[runtime] = s
	}
	return s
}

// Break notes a violation that somebody else found.
func (c *Checker) Break(at time.Duration, invariant Invariant, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(at, invariant, format, args...)
}

func (c *Checker) fail(at time.Duration, invariant Invariant, format string, args ...any) {
	c.violations = append(c.violations, Violation{at, invariant, fmt.Sprintf(format, args...)})
}

// check counts that an invariant was looked at, and notes a violation where it does not hold.
func (c *Checker) check(at time.Duration, invariant Invariant, holds bool, format string, args ...any) {
	c.checks[invariant]++
	if !holds {
		c.fail(at, invariant, format, args...)
	}
}

// Violations returns all so far.
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

// What is meant.

// Asked says that a runtime shall have a module.
func (c *Checker) Asked(at time.Duration, runtime string, modules ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range modules {
		c.of(runtime).asked[m], c.of(runtime).wants[m] = at, true
	}
}

// Unasked says that a runtime shall not have a module any more.
func (c *Checker) Unasked(at time.Duration, runtime string, modules ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range modules {
		c.of(runtime).unasked[m], c.of(runtime).wants[m] = at, false
	}
}

// Promoted says that a channel has a version of a module, and whether it is one that no canary can run.
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

// TookLease says that people took the lease from the publisher that has it.
func (c *Checker) TookLease(at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaderless = at
}

// led reports whether no more than one publisher leads.
func (c *Checker) led(at time.Duration) bool {
	return c.leaderless == 0 || at-c.leaderless > twoLeaders
}

// Unpoliced says that from now on versions go to everybody at once.
func (c *Checker) Unpoliced() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unpoliced = true
}

// Undone says that people take a rollout back.
func (c *Checker) Undone(rollout string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undone[rollout] = true
}

// Deleted says that a user deletes an object of a module.
func (c *Checker) Deleted(at time.Duration, runtime, object string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(runtime).deleted[object] = at
}

// mayGo reports whether somebody asked for a module's removal, be it taken back shortly before.
func (s *seen) mayGo(at time.Duration, module string) bool {
	_, unasked := s.unasked[module]
	return unasked && (!s.wants[module] || at-s.asked[module] < excuse)
}

// mayLack reports whether a runtime may not have a module any more: somebody asked for that, or it follows no bundle
// yet that is newer than the one that removes the module, whoever took the wish back meanwhile.
func (s *seen) mayLack(at time.Duration, module string) bool {
	removing, removed := s.removed[module]
	return s.mayGo(at, module) || removed && !removing.before(s.said.Epoch, s.said.Observed)
}

// before reports whether a runtime that follows a bundle would not go back to this one.
func (p Push) before(epoch, sequence int64) bool {
	return p.Epoch < epoch || p.Epoch == epoch && p.Sequence < sequence
}

// Wanted returns the modules that a runtime shall have now.
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

// count counts a check that somebody else made.
func (c *Checker) count(invariant Invariant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checks[invariant]++
}
