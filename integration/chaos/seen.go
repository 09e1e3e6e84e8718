package chaos

import (
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Pushed checks a bundle that the registry accepted.
func (c *Checker) Pushed(at time.Duration, p Push) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(p.Runtime)
	c.check(at, Signed, p.Refused == nil, "bundle %s was pushed for %s, but runtimes must refuse it: %v", p.Digest,
		p.Runtime, p.Refused)
	if p.Refused != nil {
		return
	}
	c.checkQuarantine(at, s, p)
	c.checkWithheld(at, s, p)
	s.install.bundles = append(s.install.bundles, p)
	before, late := s.pushed, false
	if before != nil {
		newer := p.Digest == before.Digest || p.Epoch > before.Epoch || p.Epoch == before.Epoch &&
			p.Sequence > before.Sequence
		// After a restart, a publisher continues from the sequence number in the Kyma's status. If the previous
		// publisher pushed a number in the future and exited before it wrote the status, the next number can be lower.
		unrecorded := before.Ahead && s.record.Published < before.Sequence
		c.check(at, Sequences, newer || unrecorded || !c.hasSingleLeader(at),
			"bundle %d of epoch %d was pushed for %s after bundle %d of epoch %d", p.Sequence, p.Epoch, p.Runtime,
			before.Sequence, before.Epoch)
		late = !newer && !unrecorded && !c.hasSingleLeader(at)
	}
	for module, version := range p.Versions {
		_, asked := s.asked[module]
		c.check(at, Meant, asked || c.mandatory[module],
			"bundle %d installs module %s in %s, but it was never requested there", p.Sequence, module, p.Runtime)
		c.check(at, Meant, c.versions[module][version],
			"bundle %d installs %s %s in %s, but no channel had that version", p.Sequence, module, version, p.Runtime)
		if s.signed[module] == nil {
			s.signed[module] = map[string]bool{}
		}
		s.signed[module][version] = true
	}
	c.checkCommit(at, p)
	for _, module := range p.Removals {
		c.check(at, Kept, s.mayBeRemoved(at, module), "bundle %d removes module %s from %s without a request",
			p.Sequence, module, p.Runtime)
		c.checkRemoval(at, s, p, module)
		s.remove(module, p)
	}
	if p.Deleting {
		for _, module := range []string{c.staged} {
			c.check(at, Kept, s.mayBeRemoved(at, module), "bundle %d removes all modules from %s without a request",
				p.Sequence, p.Runtime)
		}
		for module := range s.signed {
			s.remove(module, p)
		}
	}
	if late {
		return // the runtime may still have the older bundle
	}
	if _, known := s.announced[p.NextCA]; !known {
		s.announced[p.NextCA] = p
	}
	c.compare(at, s, before, p)
}

// compare compares a bundle with the runtime's previous bundle.
func (c *Checker) compare(at time.Duration, s *observations, before *Push, p Push) {
	if before != nil && s.isForReplacedKey(before, &p) {
		p.Versions, p.Issued = before.Versions, before.Issued // the runtime keeps its modules
		s.pushed = &p
		return
	}
	c.noteWindow(s, p)
	c.checkConcurrency(at, s, before, &p)
	c.assign(at, before, &p)
	c.checkOmission(at, s, before, &p)
	s.pushed = &p
	for module := range s.wants {
		c.checkBundleProgress(at, p.Runtime, s, module)
	}
}

// isForReplacedKey reports whether a bundle is issued for a key that the runtime has replaced. The publisher pushes
// such a bundle after the control plane was restored from a backup that lacks the newest key. The runtime refuses the
// bundle.
func (s *observations) isForReplacedKey(before, p *Push) bool {
	if s.replacedKeys[p.Key] {
		return true
	}
	if p.Key == bundle.AudienceNone { // an operator revoked the key; the next key gets the versions of this bundle
		s.replacedKeys[before.Key] = before.Key != bundle.AudienceNone
		return false
	}
	if p.Key != "" && before.Key != "" && before.Key != bundle.AudienceNone && p.Key != before.Key {
		s.replacedKeys[before.Key] = true
	}
	return false
}

// noteKey records that the runtime has accepted a bundle, so the key of this bundle is the runtime's current key. A
// restored control plane can know only an earlier key. Its bundles then seem to replace the runtime's current key.
func (s *observations) noteKey(sequence int64) {
	bundles := s.install.bundles
	i := slices.IndexFunc(bundles, func(p Push) bool { return p.Sequence == sequence })
	if i < 0 || !s.replacedKeys[bundles[i].Key] {
		return
	}
	delete(s.replacedKeys, bundles[i].Key)
	for _, p := range bundles[i:] {
		if p.Key == bundles[i].Key {
			s.pushed.Versions, s.pushed.Issued = p.Versions, p.Issued
		}
	}
}

func (s *observations) remove(module string, p Push) {
	if noted, removed := s.removed[module]; !removed || noted.isBefore(p.Epoch, p.Sequence) {
		s.removed[module] = p
	}
}

// checkConcurrency checks that a bundle with a new version does not exceed the maximum number of concurrent updates in
// a rollout.
func (c *Checker) checkConcurrency(at time.Duration, s *observations, before, p *Push) {
	next, open := p.Versions[c.staged], s.open
	s.open = ""
	if c.unpoliced || Canary(p.Runtime) || before == nil || before.Versions[c.staged] == "" || next == "" {
		return
	}
	c.check(at, Budget, !c.broken[next], "%s %s fails on all canaries but was published to %s", c.staged, next,
		p.Runtime)
	if before.Versions[c.staged] == next {
		s.open = open // reports about earlier bundles with this version also count
		return
	}
	if !bundle.IsOlder(before.Versions[c.staged], next) {
		return // rollouts do not limit concurrent downgrades
	}
	s.open, s.openSince = next, p.Sequence
	var unanswered []string
	for id, other := range c.runtimes {
		if other.open == next {
			unanswered = append(unanswered, id)
		}
	}
	slices.Sort(unanswered)
	c.check(at, Budget, len(unanswered) <= c.concurrent,
		"%d runtimes have %s %s without a reported result, but at most %d can have it: %v",
		len(unanswered), c.staged, next, c.concurrent, unanswered)
}

// Reported checks a report that the registry accepted.
func (c *Checker) Reported(at time.Duration, r Reported) {
	if r.Ahead {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(r.Runtime)
	before := s.lastReport
	if s.isCloned(at) {
		before = s.instances[r.Instance]
		s.instances[r.Instance] = r
	}
	if before.Sequence > 0 {
		c.check(at, Sequences, r.Sequence >= before.Sequence, "%s pushed report %d after report %d", r.Runtime,
			r.Sequence, before.Sequence)
		c.check(at, Sequences, r.Epoch > before.Epoch || r.Epoch == before.Epoch &&
			r.Observed >= before.Observed || c.isRestored(at, r.Runtime) || r.Observed == 0 && s.hasNewKey(at),
			"%s follows bundle %d after bundle %d", r.Runtime, r.Observed, before.Observed)
	}
	if r.Observed > 0 {
		c.check(at, Signed, s.pushed != nil && r.Observed <= s.pushed.Sequence,
			"%s follows bundle %d, which was never pushed", r.Runtime, r.Observed)
	}
	if s.followsSince == 0 && r.Observed > 0 {
		s.followsSince = at
	}
	s.lastReport, s.reportedAt = r, at
	s.noteKey(r.Observed)
	c.checkClaims(at, s, r)
	c.noteReport(s, r)
	c.noteCopy(at, s, r)
	if s.open != "" && r.Observed >= s.openSince && (r.Waiting[c.staged] || r.Answered[c.staged] == s.open) {
		s.open = ""
	}
}

// Recorded compares the status of a runtime's Kyma with the previous status.
func (c *Checker) Recorded(at time.Duration, r Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.restoring[""] > 0 {
		return
	}
	s := c.of(r.Runtime)
	c.check(at, Kept, s.record.UID == "" || s.record.UID == r.UID || s.mayBeRemoved(at, c.staged),
		"Kyma %s of the control plane was deleted and created again without a request", r.Runtime)
	if b := s.record; b.UID == r.UID && b.Epoch == r.Epoch {
		c.check(at, Statuses, r.Published >= b.Published,
			"the status of %s shows published bundle %d after bundle %d", r.Runtime, r.Published,
			b.Published)
		// A restored runtime can have lost the bundle that a restored control plane shows. Checker.Reported checks
		// the reports.
		isReported := r.Report == s.lastReport.Sequence && r.Observed == s.lastReport.Observed
		c.check(at, Statuses, r.Observed >= b.Observed || c.isRestored(at, r.Runtime) || s.isCloned(at) ||
			r.Observed == 0 && s.hasNewKey(at) || isReported,
			"the status of %s shows observed bundle %d after bundle %d", r.Runtime, r.Observed,
			b.Observed)
		c.check(at, Statuses, b.Key != r.Key || r.Report >= b.Report,
			"the status of %s shows report %d after report %d", r.Runtime, r.Report,
			b.Report)
	}
	c.checkRecord(at, s, r)
	c.checkIgnoredReports(at, s, r)
	c.checkCloneRequest(at, s, r)
	s.record = r
}

// laterStates maps each final state of a rollout to the states that can follow it. After a user has reverted the
// rollout, other states can follow, too.
var laterStates = map[string][]string{
	"Succeeded": {"Succeeded"}, "RolledBack": {"RolledBack"}, "Superseded": {"Superseded"}, "Stopped": {"Stopped"},
	"RollingBack": {"RollingBack", "RolledBack", "Superseded"},
}

// CheckRollout checks that a rollout's state can follow its previous state. It reports whether the state changed.
func (c *Checker) CheckRollout(at time.Duration, rollout, state string) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.rollouts[rollout]
	if allowed, ended := laterStates[before]; ended {
		back := c.undone[rollout] && slices.Contains([]string{"RollingBack", "RolledBack"}, state)
		c.check(at, Statuses, back || slices.Contains(allowed, state), "rollout %s is %s after final state %s", rollout,
			state, before)
	}
	if before == state {
		return false
	}
	c.rollouts[rollout], c.enteredAt[rollout] = state, at
	return true
}

// Present checks the installed modules of a runtime.
func (c *Checker) Present(at time.Duration, runtime string, modules map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.restoring[runtime] > 0 {
		return
	}
	s := c.of(runtime)
	if c.lacksManifests(at, runtime) {
		for module, version := range s.present {
			if modules[module] == "" {
				modules[module] = version // the agent creates the Manifest again
			}
		}
	}
	for module, version := range modules {
		c.check(at, Signed, s.signed[module][version], "%s has %s %s without a signed bundle", runtime, module,
			version)
	}
	for module := range s.present {
		_, still := modules[module]
		_, removed := s.removed[module]
		c.check(at, Kept, still || removed, "%s lost module %s, but no signed bundle removed it", runtime,
			module)
		c.check(at, Kept, still || s.mayBeMissing(at, module), "%s lost module %s without a request",
			runtime, module)
	}
	c.checkWindow(at, runtime, s, modules)
	c.checkInstalled(at, runtime, s, modules)
	c.checkProgress(at, runtime, s, modules)
	s.present = modules
}

// usersObjects is passed to Checker.Objects instead of a module's name, for objects that users created.
const usersObjects = ""

// ownerOf returns the description of a module, or of users.
func ownerOf(module string) string {
	if module == usersObjects {
		return "users"
	}
	return "module " + module
}

// Objects checks a module's objects. The last argument contains their UIDs by name. An object can be missing or have a
// new UID only if a user deleted it or requested the module's removal.
func (c *Checker) Objects(at time.Duration, runtime, module string, objects map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.restoring[runtime] > 0 {
		return
	}
	s := c.of(runtime)
	if c.objectsSeen[runtime] == nil {
		c.objectsSeen[runtime] = map[string]map[string]string{}
	}
	if module != usersObjects {
		c.checkReturn(at, runtime, module, c.objectsSeen[runtime][module], objects)
	}
	for o := range objects {
		_, asked := s.asked[module]
		asked = asked || module == usersObjects
		c.check(at, Meant, asked, "%s has %s of module %s, which was never requested", runtime, o, module)
	}
	for o, uid := range c.objectsSeen[runtime][module] {
		when, byUser := s.deleted[o]
		may := s.mayBeMissing(at, module) || byUser && at-when < requestGrace
		now, still := objects[o]
		c.check(at, Kept, may || still, "%s lost %s of %s without a request", runtime, o, ownerOf(module))
		c.check(at, Kept, may || !still || now == uid,
			"in %s, %s of %s was deleted and created again without a request", runtime, o, ownerOf(module))
	}
	c.objectsSeen[runtime][module] = objects
}

// Listed checks that all Kymas exist, except those that were deleted.
func (c *Checker) Listed(at time.Duration, kymas []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.restoring[""] > 0 {
		return
	}
	for _, id := range c.kymas {
		c.check(at, Kept, slices.Contains(kymas, id) || c.of(id).mayBeRemoved(at, c.staged),
			"the control plane lost Kyma %s, but no user deleted it", id)
	}
	c.kymas = kymas
}
