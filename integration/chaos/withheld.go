package chaos

import (
	"cmp"
	"time"
)

// Suspended announces that an operator suspends a runtime. Until Resumed, the publisher publishes nothing to the
// runtime, does not read its reports, and omits it from rollouts.
func (c *Checker) Suspended(at time.Duration, runtime string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(runtime)
	s.suspendedAt, s.open = max(at, 1), ""
}

// Resumed announces that an operator resumes publishing to a runtime.
func (c *Checker) Resumed(runtime string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(runtime).suspendedAt = 0
}

// KeyRevoked announces that an operator revoked an agent's key. The publisher must publish nothing for this key and
// refuse its reports.
func (c *Checker) KeyRevoked(at time.Duration, runtime, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(runtime).revoked[key] = at
}

// KeyDeleted announces that the key of a runtime is deleted. The agent creates a new key, and reports no bundle until
// it has a bundle for this key.
func (c *Checker) KeyDeleted(at time.Duration, runtime string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(runtime).keyDeletedAt = max(at, 1)
}

// hasNewKey reports whether a runtime can have a new key that no bundle uses yet.
func (s *observations) hasNewKey(at time.Duration) bool {
	return s.keyDeletedAt > 0 && at-s.keyDeletedAt < settleTime
}

// checkWithheld checks that a suspended runtime and a revoked key get no bundle.
func (c *Checker) checkWithheld(at time.Duration, s *observations, p Push) {
	decided := min(at, cmp.Or(p.Issued, at))
	isSuspended := s.suspendedAt > 0 && decided-s.suspendedAt > quarantineGrace
	c.check(at, Withheld, !isSuspended || s.pushed == nil || s.pushed.Digest == p.Digest,
		"bundle %d was pushed for %s, which is suspended", p.Sequence, p.Runtime)
	when, isRevoked := s.revoked[p.Key]
	c.check(at, Withheld, !isRevoked || decided-when <= quarantineGrace,
		"bundle %d was pushed for %s with key %s, which is revoked", p.Sequence, p.Runtime, p.Key)
}

// checkIgnoredReports checks that the control plane records no report from a suspended runtime or with a revoked key.
func (c *Checker) checkIgnoredReports(at time.Duration, s *observations, r Record) {
	isNew := s.record.UID == r.UID && s.record.Report > 0 && s.record.Report < r.Report
	c.check(at, Withheld, !isNew || s.suspendedAt == 0 || at-s.suspendedAt <= quarantineGrace,
		"the status of %s has report %d, but the runtime is suspended", r.Runtime, r.Report)
	when, isRevoked := s.revoked[r.Key]
	c.check(at, Withheld, !isNew || !isRevoked || s.record.Key != r.Key || at-when <= quarantineGrace,
		"the status of %s has report %d with key %s, which is revoked", r.Runtime, r.Report, r.Key)
}
