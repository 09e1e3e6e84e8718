package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// maxUnexplainedTime is the maximum time between a bundle with an older version and the observation of the rollback
// that caused this bundle.
const maxUnexplainedTime = 30 * time.Second

// finalStates lists the final states of a rollout. A rollout in such a state does not update any more runtimes.
var finalStates = []string{"Succeeded", "RolledBack", "Superseded", "Stopped"}

// Unfinished returns the rollouts that have not ended.
func Unfinished(rollouts []ObservedRollout) (names []string) {
	for _, r := range rollouts {
		if !slices.Contains(finalStates, r.State) {
			names = append(names, r.Rollout+" to "+r.To+" is "+r.State)
		}
	}
	return names
}

func (c *Checker) isControlRestoring() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restoring[""] > 0
}

// shardLag is how long a replica that is not the planner can follow an outdated plan.
const shardLag = 3 * time.Second

// Divided announces that the publishers divide the fleet among themselves. One of them plans the rollouts.
func (c *Checker) Divided() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.planLag = shardLag
}

// TookBack records that a user set the channel back, so runtimes are allowed to return from this version to an older
// one.
func (c *Checker) TookBack(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withdrawn[version] = true
}

// Rollouts checks the states of all rollouts, and the version changes since the previous call. It returns the rollouts
// whose state has changed.
func (c *Checker) Rollouts(at time.Duration, now []ObservedRollout) (changed []ObservedRollout) {
	if c.isControlRestoring() {
		return nil
	}
	for _, r := range now {
		if c.CheckRollout(at, r.Rollout, r.State) {
			changed = append(changed, r)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range now {
		c.checkRollout(at, r)
	}
	for _, g := range c.upgrades {
		c.checkUpgrade(at, g, now)
	}
	c.upgrades = nil
	c.downgrades = slices.DeleteFunc(c.downgrades, func(g assignedVersion) bool { return c.isExplained(at, g, now) })
	c.previousRollouts = now
	return changed
}

// checkRollout checks that a rollout ends, and that it counts only runtimes that reported its version as Ready.
func (c *Checker) checkRollout(at time.Duration, r ObservedRollout) {
	c.checkDuration(at, c.enteredAt[r.Rollout], maxLag, "rollout "+r.Rollout,
		r.State == "Progressing" || r.State == "RollingBack", Progress, "rollout %s to %s is %s", r.Rollout, r.To, r.State)
	ready := 0
	for _, s := range c.runtimes {
		if s.hasRun[r.To] {
			ready++
		}
	}
	c.check(at, Statuses, r.Updated <= ready, "rollout %s counts %d runtimes with %s %s, but only %d reported it as Ready",
		r.Rollout, r.Updated, c.staged, r.To, ready)
}

// checkUpgrade checks that a paused, stopped, superseded or rolled-back rollout did not update a runtime. It reports a
// violation only if the rollout was in this state both before and after the update, and did not list the runtime in
// ObservedRollout.Granted. Two changes are not violations: another rollout can return runtimes to the version of a
// superseded rollout, and a restored runtime can keep a version until a bundle rolls it back.
func (c *Checker) checkUpgrade(at time.Duration, g assignedVersion, now []ObservedRollout) {
	before, after := newestTo(c.previousRollouts, g.to), newestTo(now, g.to)
	if before == nil || after == nil || before.Rollout != after.Rollout || before.State != after.State {
		return
	}
	forbids := slices.Contains([]string{"Paused", "Stopped", "RolledBack"}, after.State) ||
		after.State == "Superseded" && !slices.ContainsFunc(now, func(r ObservedRollout) bool { return r.From == g.to })
	c.check(at, Assigned, !before.Mistyped || !after.Mistyped,
		"bundle %d gives %s %s to %s, but the first wave of rollout %s selects no runtime", g.sequence, c.staged, g.to,
		g.runtime, after.Rollout)
	c.check(at, Assigned, !forbids || g.at <= c.enteredAt[after.Rollout]+c.planLag ||
		slices.Contains(before.Granted, g.runtime) || c.isRestored(at, g.runtime),
		"bundle %d gives %s %s to %s, but rollout %s is %s", g.sequence, c.staged, g.to, g.runtime, after.Rollout,
		after.State)
}

// newestTo returns the newest rollout to a version, or nil.
func newestTo(rollouts []ObservedRollout, to string) (found *ObservedRollout) {
	for i := range rollouts {
		if rollouts[i].To == to {
			found = &rollouts[i]
		}
	}
	return found
}

// isExplained reports whether the check of a runtime's downgrade is complete. The downgrade is allowed if a user or a
// rollout withdrew the newer version. If this is not observed within maxUnexplainedTime, isExplained records a
// violation.
func (c *Checker) isExplained(at time.Duration, g assignedVersion, now []ObservedRollout) bool {
	back := []string{"RollingBack", "RolledBack", "Superseded"}
	explained := c.withdrawn[g.from] || c.broken[g.from] || slices.ContainsFunc(now, func(r ObservedRollout) bool {
		return r.To == g.from && slices.Contains(back, r.State)
	})
	if !explained && at-g.at < maxUnexplainedTime {
		return false
	}
	c.check(at, Assigned, explained, "bundle %d returns %s from %s %s to %s, but no user and no rollout withdrew %s",
		g.sequence, g.runtime, c.staged, g.from, g.to, g.from)
	return true
}

// assign checks that a canary has proven the bundle's version of the module with rollouts. It also stores the version
// change for the next call of Rollouts, which checks it again.
func (c *Checker) assign(at time.Duration, before, p *Push) {
	if c.unpoliced || before == nil {
		return
	}
	from, to := before.Versions[c.staged], p.Versions[c.staged]
	if from == "" || to == "" || from == to {
		return
	}
	g := assignedVersion{cmp.Or(p.Issued, at), p.Runtime, from, to, p.Sequence}
	if bundle.IsOlder(to, from) {
		if r := c.of(p.Runtime).lastReport; r.Sequence > 0 && r.Observed == 0 && r.States[c.staged] == "" {
			return // the agent lost its state and its Manifests, so the version is lost
		}
		if c.hasLost(before) && !(bundle.Predicate{Rollback: p.Rollback}).AllowsRollback(c.staged, from, to) {
			return // the control plane has lost the version, and the runtime refuses the older one
		}
		c.downgrades = append(c.downgrades, g)
		return
	}
	c.upgrades = append(c.upgrades, g)
	if !Canary(p.Runtime) {
		c.check(at, Assigned, c.proven[to], "bundle %d gives %s %s to %s before a canary has reported it as Ready",
			p.Sequence, c.staged, to, p.Runtime)
	}
}

// BundlesLost records the time when the registry lost bundles.
func (c *Checker) BundlesLost(at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bundlesLostAt = at
}

// rotationTime is how long a publisher can sign with its previous key after a rotation.
const rotationTime = 10 * time.Second

// PublisherKeyRotated announces a rotation of the publisher's key. The new root of trust revokes the key that preceded
// the previous key. A publisher without its earlier bundles in memory does not use a bundle that the revoked key
// signed.
func (c *Checker) PublisherKeyRotated(at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rotatedAt > 0 {
		c.bundlesLostAt = max(c.bundlesLostAt, c.rotatedAt+rotationTime)
	}
	c.rotatedAt = at
}

// hasLost reports whether both the registry and the control plane may have lost a bundle.
func (c *Checker) hasLost(p *Push) bool {
	_, restored := c.restored[""]
	return restored && c.bundlesLostAt > p.Issued
}

// noteReport stores the fields of a report that later checks need.
func (c *Checker) noteReport(s *observations, r Reported) {
	if version := r.Ready[c.staged]; version != "" {
		s.hasRun[version] = true
		if Canary(r.Runtime) {
			c.proven[version] = true
		}
	}
	if r.Requests != nil && !s.cloned { // a copy counts the generations of its own Kyma
		s.requests[r.Generation] = r.Requests
	}
	s.reports[r.Sequence] = r
}

// checkRemoval checks that a bundle does not remove a requested module. The publisher resolves each bundle from a
// generation of the runtime's Kyma. If this generation requests the module, the removal is a violation.
func (c *Checker) checkRemoval(at time.Duration, s *observations, p Push, module string) {
	requests, known := s.requests[p.Generation]
	c.check(at, Kept, !known || !s.wants[module] || !slices.Contains(requests, module),
		"bundle %d removes module %s from %s, but generation %d of the runtime's Kyma requests it", p.Sequence, module,
		p.Runtime, p.Generation)
}

// checkWindow checks that a runtime does not upgrade a module to a version that requires downtime while the runtime's
// maintenance window is closed. The check starts after the runtime has reported a bundle with the closed window.
func (c *Checker) checkWindow(at time.Duration, runtime string, s *observations, modules map[string]string) {
	closed := s.closedSince > 0 && s.lastReport.Observed >= s.closedSince && !s.isCloned(at)
	for module, version := range modules {
		was := s.present[module]
		upgraded := was != "" && bundle.IsOlder(was, version) && c.downtime[module+" "+version]
		c.check(at, Assigned, !upgraded || !closed || !s.wasClosed,
			"%s upgraded %s to %s, which requires downtime, while its maintenance window is closed", runtime, module,
			version)
	}
	s.wasClosed = closed
}

// noteWindow stores the versions that require downtime, and the sequence of the first bundle that closed the
// maintenance window, or 0 if the window is open.
func (c *Checker) noteWindow(s *observations, p Push) {
	for module := range p.Downtime {
		c.downtime[module+" "+p.Versions[module]] = true
	}
	switch {
	case !p.Closed:
		s.closedSince = 0
	case s.closedSince == 0:
		s.closedSince = p.Sequence
	}
}

// checkRecord compares the modules and the key in a runtime's status with the runtime's reports.
func (c *Checker) checkRecord(at time.Duration, s *observations, r Record) {
	if b := s.record; b.UID == r.UID && b.Key != "" && b.Key != r.Key {
		s.formerKeys[b.Key] = true
	}
	c.check(at, Statuses, !s.formerKeys[r.Key], "the status of %s has key %s again after another key", r.Runtime, r.Key)
	c.checkRecordedBundle(at, s, r)
	c.checkRecordedStates(at, s, r)
}

// checkRecordedBundle checks that a runtime's status has the bundle of the recorded report.
func (c *Checker) checkRecordedBundle(at time.Duration, s *observations, r Record) {
	report, known := s.reports[r.Report]
	c.check(at, Statuses, !known || r.Observed == report.Observed,
		"the status of %s has observed bundle %d, but report %d has bundle %d", r.Runtime, r.Observed, r.Report,
		report.Observed)
	c.check(at, Statuses, r.ObservedDigest == "" || s.install.hasBundle(r.ObservedEpoch, r.Observed, r.ObservedDigest),
		"the status of %s has observed bundle %d with digest %s, but this bundle was never pushed", r.Runtime, r.Observed,
		r.ObservedDigest)
}

// checkRecordedStates checks the states of a Kyma and its modules against the recorded report.
func (c *Checker) checkRecordedStates(at time.Duration, s *observations, r Record) {
	report, known := s.reports[r.Report]
	isCurrent := s.pushed != nil && s.pushed.Sequence == r.Published && c.isTraceable(at, r.Runtime, s) &&
		!c.lacksManifests(at, r.Runtime)
	for _, module := range r.Ready {
		state, reported := report.States[module]
		c.check(at, Statuses, !reported || state == "Ready", "the status of %s shows %s as Ready, but report %d has %s",
			r.Runtime, module, r.Report, state)
		// A publisher that cannot read the newest bundle keeps the states of modules that are not in the report.
		c.check(at, Statuses, reported || !known || !isCurrent,
			"the status of %s shows %s as Ready, but report %d does not have the module", r.Runtime, module, r.Report)
	}
	for module, state := range report.States {
		c.check(at, Statuses, r.State != "Ready" || state == "Ready" || !isCurrent || s.pushed.Versions[module] == "" ||
			s.pushed.Mandatory[module],
			"the Kyma of %s is Ready, but report %d has %s in state %s", r.Runtime, r.Report, module, state)
	}
	for module, wants := range s.wants {
		c.checkDuration(at, s.asked[module], maxLag, fmt.Sprint("shown ", r.Runtime, " ", module),
			wants && !s.isHeld() && s.lastReport.States[module] == "Ready" && !slices.Contains(r.Ready, module), Progress,
			"the status of %s does not show %s as Ready, although the runtime reports it", r.Runtime, module)
	}
}

// lacksManifests reports whether a user deleted a runtime's Manifest CRD so recently that Manifests can be missing.
func (c *Checker) lacksManifests(at time.Duration, runtime string) bool {
	when, undefined := c.undefined[runtime]
	return undefined && at-when < requestGrace
}

// Incomplete announces that the commit with this version cannot be applied completely. Runtimes must not get the
// version.
func (c *Checker) Incomplete(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.incomplete[version] = true
}

// Complete announces that all commits can be applied completely from now on.
func (c *Checker) Complete() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.incomplete)
}

// Reverted announces that a revert removes the version, so runtimes must not get it. All other commits can be applied
// completely from now on.
func (c *Checker) Reverted(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.incomplete)
	c.incomplete[version] = true
}

// checkCommit checks that a bundle does not contain a version from an incomplete commit.
func (c *Checker) checkCommit(at time.Duration, p Push) {
	version := p.Versions[c.staged]
	c.check(at, Whole, !c.incomplete[version], "bundle %d gives %s %s to %s, but the commit of this version is incomplete",
		p.Sequence, c.staged, version, p.Runtime)
}
