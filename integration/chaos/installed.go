package chaos

import "time"

// claimTime is the maximum time between a report that lists a version as Ready and the observation of this version in
// the runtime.
const claimTime = 10 * time.Second

// isTraceable reports whether each state of a runtime follows from its bundles and reports. It returns false after a
// restore, and while a copy has the runtime's key.
func (c *Checker) isTraceable(at time.Duration, runtime string, s *observations) bool {
	return !c.isRestored(at, runtime) && !s.isCloned(at)
}

// checkInstalled checks that a runtime installs only versions from its reported bundle or a newer bundle, and that it
// has the versions that it reports as Ready.
func (c *Checker) checkInstalled(at time.Duration, runtime string, s *observations, modules map[string]string) {
	i, traceable := &s.install, c.isTraceable(at, runtime, s)
	i.advance(at)
	for module, version := range modules {
		if s.present[module] == version {
			continue
		}
		i.changedAt[module] = at
		c.check(at, Signed, !traceable || i.offers(module, version),
			"%s installed %s %s, but neither the reported bundle %d nor a newer bundle contains this version", runtime,
			module, version, i.floor.sequence)
	}
	for module := range s.present {
		if modules[module] == "" {
			i.changedAt[module] = at
		}
	}
	for module, claimed := range i.claims {
		if modules[module] != claimed.version && at-claimed.bundle.at < claimTime {
			continue
		}
		delete(i.claims, module)
		// A version that was installed only briefly before or after the report may not have been observed.
		changedAt, hasChanged := i.changedAt[module]
		isBrief := hasChanged && claimed.bundle.at-changedAt < requestGrace || i.isReplaced(module, claimed)
		c.check(at, Statuses, !traceable || modules[module] == claimed.version || isBrief,
			"report %d from %s has %s %s as Ready, but the runtime has %q", claimed.report, runtime, module, claimed.version,
			modules[module])
	}
}

// checkClaims checks that a report contains only a pushed bundle, contains only versions from pushed bundles, and does
// not list a version as Ready that cannot run.
func (c *Checker) checkClaims(at time.Duration, s *observations, r Reported) {
	if r.Digest != "" {
		c.check(at, Signed, s.install.hasBundle(r.Epoch, r.Observed, r.Digest),
			"report %d from %s has bundle %d with digest %s, but this bundle was never pushed", r.Sequence, r.Runtime,
			r.Observed, r.Digest)
	}
	for module, version := range r.Ready {
		c.check(at, Signed, s.signed[module][version], "report %d from %s has %s %s as Ready, but no signed bundle has it",
			r.Sequence, r.Runtime, module, version)
		c.check(at, Statuses, module != c.staged || !c.broken[version],
			"report %d from %s has %s %s as Ready, but this version cannot run", r.Sequence, r.Runtime, module, version)
	}
	if !s.isCloned(at) {
		s.install.note(at, r)
	}
}

// checkReturn checks that a removed module's objects do not appear again.
func (c *Checker) checkReturn(at time.Duration, runtime, module string, before, now map[string]string) {
	s := c.of(runtime)
	s.install.advance(at)
	if !c.isTraceable(at, runtime, s) || len(before) > 0 || s.present[module] != "" {
		return
	}
	for o := range now {
		c.check(at, Kept, s.install.offers(module, ""),
			"in %s, %s of module %s appeared, but neither the reported bundle %d nor a newer bundle contains the module",
			runtime, o, module, s.install.floor.sequence)
	}
}
