package chaos

import (
	"slices"
	"time"
)

// copyOf returns the checker's name for the copy of a runtime.
func copyOf(runtime string) string { return "copy-of-" + runtime }

// quarantineGrace is how long an earlier push can still reach the registry after the start of a quarantine.
const quarantineGrace = twoLeadersTime + 10*time.Second

// Cloned announces that a second agent starts in a copy of a runtime's cluster. Until Separated is called, the checker
// compares each agent's reports only with that agent's own reports. The copy must keep its modules, as the original
// must. If a user has just deleted the Manifest CRD in the original, the copy can start in the middle of this deletion.
func (c *Checker) Cloned(at time.Duration, runtime string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.runtimes, copyOf(runtime))
	delete(c.restoring, copyOf(runtime))
	delete(c.objectsSeen, copyOf(runtime))
	delete(c.undefined, copyOf(runtime))
	if _, isUndefined := c.undefined[runtime]; isUndefined {
		c.undefined[copyOf(runtime)] = at
	}
	original, twin := c.of(runtime), c.of(copyOf(runtime))
	original.cloned, original.originalAt, original.mayFollowCopy = true, original.reportedAt, false
	twin.signed, twin.removed, twin.cloned = original.signed, original.removed, true
	twin.asked[c.staged], twin.wants[c.staged] = 0, true
	for module := range original.asked {
		twin.asked[module] = original.asked[module]
	}
}

// Separating announces that the copy stops and that an operator replaces the original's key.
func (c *Checker) Separating(runtime string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(runtime).quarantinedSince, c.of(runtime).rekeyed = 0, true
	c.restoring[copyOf(runtime)] = 1 // the copy's cluster is deleted, so its objects can be missing
}

// Separated announces that only one agent has the runtime's key again.
func (c *Checker) Separated(at time.Duration, runtime string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(runtime)
	s.cloned, s.rekeyed, s.separated = false, false, at
}

// isCloned reports whether the publisher can still record reports from a copy.
func (s *observations) isCloned(at time.Duration) bool {
	return s.cloned || s.separated > 0 && at-s.separated < settleTime
}

// checkQuarantine checks that the publisher stops publishing to a runtime after it has reported two agents with the
// same key.
func (c *Checker) checkQuarantine(at time.Duration, s *observations, p Push) {
	if s.quarantinedSince == 0 || at-s.quarantinedSince < quarantineGrace || s.pushed == nil {
		return
	}
	c.check(at, Cloned, p.Digest == s.pushed.Digest,
		"bundle %d was pushed for %s, although two agents have its key since %s", p.Sequence, p.Runtime,
		s.quarantinedSince.Round(time.Second))
}

// confirmTime is longer than three poll intervals. If an agent does not read reports from another agent for three poll
// intervals, it counts as the only agent.
const confirmTime = time.Second

// noteCopy stores the time of the original's last report. The copy's admin has removed all modules in the copy. If the
// copy is confirmed as the only agent while the original cannot report, the control plane follows the copy until an
// operator enrolls the original again. This can happen after a registry outage if the original retries later than the
// copy.
func (c *Checker) noteCopy(at time.Duration, s *observations, r Reported) {
	switch {
	case !s.cloned || r.Requests == nil:
	case slices.Contains(r.Requests, c.staged):
		s.originalAt = at
	case r.Confirmed && at-s.originalAt > confirmTime:
		s.mayFollowCopy = true
	}
}

// checkCloneRequest checks that the status of a cloned runtime does not contain the request of the copy, whose admin
// has removed all modules.
func (c *Checker) checkCloneRequest(at time.Duration, s *observations, r Record) {
	if !s.cloned {
		return
	}
	if r.Quarantined && !s.rekeyed && s.quarantinedSince == 0 {
		s.quarantinedSince = at
	}
	if r.Requests != nil && !s.mayFollowCopy {
		c.check(at, Cloned, slices.Contains(r.Requests, c.staged),
			"the control plane records the request of the copy of %s: %v", r.Runtime, r.Requests)
	}
}

// WithoutNextCA returns the runtimes that have not applied a bundle with the announced CA.
func (c *Checker) WithoutNextCA(ca string, runtimes []string) (late []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range runtimes {
		s := c.of(id)
		first, announced := s.announced[ca]
		if !announced || s.lastReport.Epoch < first.Epoch ||
			s.lastReport.Epoch == first.Epoch && s.lastReport.Observed < first.Sequence {
			late = append(late, id)
		}
	}
	return late
}

// Silent returns the runtimes that have not reported since the given time.
func (c *Checker) Silent(since time.Duration, runtimes []string) (silent []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range runtimes {
		if c.of(id).reportedAt < since {
			silent = append(silent, id)
		}
	}
	return silent
}
