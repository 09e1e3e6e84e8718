package chaos

import (
	"fmt"
	"slices"
	"time"
)

// maxLag is the maximum time until a change takes effect, and the maximum duration of an unfinished rollout. It is much
// longer than a series of faults.
const maxLag = 15 * time.Minute

// checkDuration checks that the problem with this key does not last longer than the duration most. The duration starts
// at the time from, or at the last call without the problem, whichever is later.
func (c *Checker) checkDuration(
	at, from, most time.Duration, key string, problem bool, invariant Invariant, format string, args ...any,
) {
	if !problem {
		c.fine[key] = at
		return
	}
	began := max(from, c.fine[key])
	isLate := at-began > most
	c.check(at, invariant, !isLate, "%s for %s", fmt.Sprintf(format, args...), (at - began).Round(time.Second))
	if isLate {
		c.fine[key] = at // one violation is enough
	}
}

// checkProgress checks that the requests of a runtime take effect: its newest bundle contains the requested modules,
// and the runtime installs them and reports them as Ready.
func (c *Checker) checkProgress(at time.Duration, runtime string, s *observations, modules map[string]string) {
	for module, wants := range s.wants {
		asked, expected := s.asked[module], wants && !s.isHeld()
		c.checkBundleProgress(at, runtime, s, module)
		version, isInstallable := s.reportedVersion(module)
		state := s.lastReport.States[module]
		explained := s.lastReport.Waiting[module] || state == "Error" || state == "Warning"
		c.checkDuration(at, max(asked, s.followsSince), maxLag, fmt.Sprint("installed ", runtime, " ", module),
			expected && isInstallable && !explained && modules[module] != version, Progress,
			"%s follows bundle %d, but has %s %q instead of %s", runtime, s.lastReport.Observed, module, modules[module],
			version)
		c.checkDuration(at, asked, maxLag, fmt.Sprint("ready ", runtime, " ", module),
			expected && state != "Ready" && !s.lastReport.Waiting[module], Progress,
			"%s has not reported %s as Ready", runtime, module)
	}
}

// checkBundleProgress checks that the newest bundle of a runtime contains a requested module.
func (c *Checker) checkBundleProgress(at time.Duration, runtime string, s *observations, module string) {
	c.checkDuration(at, s.asked[module], maxLag, fmt.Sprint("bundle ", runtime, " ", module),
		s.wants[module] && !s.isHeld() && (s.pushed == nil || s.pushed.Versions[module] == ""), Progress,
		"no bundle for %s contains the requested module %s", runtime, module)
}

// isHeld reports whether the publisher cannot update the runtime, because two agents have its key, or because an
// operator suspended it or revoked its key.
func (s *observations) isHeld() bool {
	_, revoked := s.revoked[s.record.Key]
	return s.cloned || s.suspendedAt > 0 || revoked
}

// reportedVersion returns a module's version in the bundle that the last report names.
func (s *observations) reportedVersion(module string) (version string, known bool) {
	for _, p := range slices.Backward(s.install.bundles) {
		if p.Epoch == s.lastReport.Epoch && p.Sequence == s.lastReport.Observed {
			version, known = p.Versions[module]
			return version, known
		}
	}
	return "", false
}

// checkOmission checks that a bundle contains the requested modules of the previous bundle. A publisher that cannot
// resolve a module keeps the module as it is in the previous bundle, unless the previous bundle was lost.
func (c *Checker) checkOmission(at time.Duration, s *observations, before, p *Push) {
	if before == nil || p.Deleting || c.mayBeLost(before) {
		return
	}
	for module := range before.Versions {
		_, unasked := s.unasked[module]
		if requests, known := s.requests[p.Generation]; known {
			unasked = !slices.Contains(requests, module)
		}
		_, has := p.Versions[module]
		c.check(at, Kept, has || unasked || !s.wants[module] || slices.Contains(p.Removals, module),
			"bundle %d for %s does not contain the requested module %s of bundle %d", p.Sequence, p.Runtime, module,
			before.Sequence)
	}
}

// mayBeLost reports whether the registry or the control plane may have lost a bundle.
func (c *Checker) mayBeLost(p *Push) bool {
	when, restored := c.restored[""]
	return c.restoring[""] > 0 || restored && when > p.Issued || c.bundlesLostAt > p.Issued
}

// Edited announces that a user edits an object of a module. The agent must restore the content.
func (c *Checker) Edited(at time.Duration, runtime string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(runtime).editedAt = at
}

// Content checks that the agent restores an edited object. isEdited is true if the object has the user's content.
func (c *Checker) Content(at time.Duration, runtime, object string, isEdited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.restoring[runtime] > 0 {
		return
	}
	c.checkDuration(at, c.of(runtime).editedAt, requestGrace, fmt.Sprint("content ", runtime, " ", object), isEdited,
		Kept, "in %s, %s has a user's content", runtime, object)
}
