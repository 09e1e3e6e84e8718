package chaos

import (
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Pushed judges a bundle that the registry accepted.
func (c *Checker) Pushed(at time.Duration, p Push) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(p.Runtime)
	c.check(at, Signed, p.Refused == nil, "bundle %s was pushed for %s, which nobody may follow: %v", p.Digest,
		p.Runtime, p.Refused)
	if p.Refused != nil {
		return
	}
	before, late := s.pushed, false
	if before != nil {
		newer := p.Digest == before.Digest || p.Epoch > before.Epoch || p.Epoch == before.Epoch &&
			p.Sequence > before.Sequence
		// Such a sequence counts after the status names it. A publisher that ends before continues from the previous
		// sequence, and adds one if its time is behind that. After a key rotation it believes only a report about the
		// bundle in force.
		unnoted := before.Ahead && s.record.Published < before.Sequence
		c.check(at, Sequences, newer || unnoted || !c.led(at),
			"bundle %d of epoch %d was pushed for %s after bundle %d of epoch %d", p.Sequence, p.Epoch, p.Runtime,
			before.Sequence, before.Epoch)
		late = !newer && !unnoted && !c.led(at)
	}
	for module, version := range p.Versions {
		_, asked := s.asked[module]
		c.check(at, Meant, asked, "bundle %d brings module %s to %s, where nobody ever asked for it", p.Sequence,
			module, p.Runtime)
		c.check(at, Meant, c.versions[module][version],
			"bundle %d brings %s %s to %s, a version that no channel ever had", p.Sequence, module, version, p.Runtime)
		if s.signed[module] == nil {
			s.signed[module] = map[string]bool{}
		}
		s.signed[module][version] = true
	}
	for _, module := range p.Removals {
		c.check(at, Kept, s.mayGo(at, module), "bundle %d removes module %s from %s, and nobody asked for that",
			p.Sequence, module, p.Runtime)
		s.remove(module, p)
	}
	if p.Deleting {
		for _, module := range []string{c.staged} {
			c.check(at, Kept, s.mayGo(at, module), "bundle %d removes everything from %s, and nobody asked for that",
				p.Sequence, p.Runtime)
		}
		for module := range s.signed {
			s.remove(module, p)
		}
	}
	if late {
		return // a runtime may follow it that did not see the newer one, which is the one to come all the same
	}
	c.spend(at, s, before, &p)
	s.pushed = &p
}

// remove records that a bundle removed a module.
func (s *seen) remove(module string, p Push) {
	if noted, removed := s.removed[module]; !removed || noted.before(p.Epoch, p.Sequence) {
		s.removed[module] = p
	}
}

// spend judges the share of a rollout's budget that a bundle uses.
func (c *Checker) spend(at time.Duration, s *seen, before, p *Push) {
	next, open := p.Versions[c.staged], s.open
	s.open = ""
	if c.unpoliced || Canary(p.Runtime) || before == nil || before.Versions[c.staged] == "" || next == "" {
		return
	}
	c.check(at, Budget, !c.broken[next], "%s %s, which no canary can run, was given to %s", c.staged, next, p.Runtime)
	if before.Versions[c.staged] == next {
		s.open = open // it is answered by whatever bundle brings it
		return
	}
	if !bundle.Older(before.Versions[c.staged], next) {
		return // it goes back, which nothing limits
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
		"%d runtimes have %s %s and did not say yet how it went, %d may: %v",
		len(unanswered), c.staged, next, c.concurrent, unanswered)
}

// Reported judges a report that the registry accepted.
func (c *Checker) Reported(at time.Duration, r Reported) {
	if r.Ahead {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(r.Runtime)
	if s.lastReport.Sequence > 0 {
		c.check(at, Sequences, r.Sequence >= s.lastReport.Sequence, "%s pushed report %d after report %d", r.Runtime,
			r.Sequence, s.lastReport.Sequence)
		c.check(at, Sequences, r.Epoch > s.lastReport.Epoch || r.Epoch == s.lastReport.Epoch &&
			r.Observed >= s.lastReport.Observed,
			"%s follows bundle %d after bundle %d", r.Runtime, r.Observed, s.lastReport.Observed)
	}
	if r.Observed > 0 {
		c.check(at, Signed, s.pushed != nil && r.Observed <= s.pushed.Sequence,
			"%s follows bundle %d, which was never pushed", r.Runtime, r.Observed)
	}
	s.lastReport = r
	if s.open != "" && r.Observed >= s.openSince && (r.Waiting[c.staged] || r.Answered[c.staged] == s.open) {
		s.open = ""
	}
}

// Recorded judges the control plane's status of a runtime.
func (c *Checker) Recorded(at time.Duration, r Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(r.Runtime)
	c.check(at, Kept, s.record.UID == "" || s.record.UID == r.UID || s.mayGo(at, c.staged),
		"the control plane has another Kyma %s: it was deleted and created again, and nobody asked for that", r.Runtime)
	if b := s.record; b.UID == r.UID && b.Epoch == r.Epoch {
		c.check(at, Statuses, r.Published >= b.Published,
			"the control plane says of %s that bundle %d was published, and said %d before", r.Runtime, r.Published,
			b.Published)
		c.check(at, Statuses, r.Observed >= b.Observed,
			"the control plane says of %s that it follows bundle %d, and said %d before", r.Runtime, r.Observed,
			b.Observed)
		c.check(at, Statuses, b.Key != r.Key || r.Report >= b.Report,
			"the control plane says of %s that report %d is its newest, and said %d before", r.Runtime, r.Report,
			b.Report)
	}
	s.record = r
}

// after lists the states that may follow the final states of a rollout. Users may take back a finished rollout.
var after = map[string][]string{
	"Succeeded": {"Succeeded"}, "RolledBack": {"RolledBack"}, "Superseded": {"Superseded"}, "Stopped": {"Stopped"},
	"RollingBack": {"RollingBack", "RolledBack", "Superseded"},
}

// Stands judges the state of a rollout and reports whether it has changed.
func (c *Checker) Stands(at time.Duration, rollout, state string) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.rollouts[rollout]
	if allowed, ended := after[before]; ended {
		back := c.undone[rollout] && slices.Contains([]string{"RollingBack", "RolledBack"}, state)
		c.check(at, Statuses, back || slices.Contains(allowed, state), "rollout %s is %s after it was %s", rollout,
			state, before)
	}
	c.rollouts[rollout] = state
	return before != state
}

// Present judges all modules of a runtime.
func (c *Checker) Present(at time.Duration, runtime string, modules map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(runtime)
	for module, version := range modules {
		c.check(at, Signed, s.signed[module][version], "%s has %s %s, which no signed bundle brought", runtime, module,
			version)
	}
	for module := range s.present {
		_, still := modules[module]
		_, removed := s.removed[module]
		c.check(at, Kept, still || removed, "%s has no module %s any more, and no signed bundle removed it", runtime,
			module)
		c.check(at, Kept, still || s.mayLack(at, module), "%s has no module %s any more, and nobody asked for that",
			runtime, module)
	}
	s.present = modules
}

// Objects judges all objects of a module in a runtime by name and UID. Objects that users delete come back. A changed
// UID means that an object was deleted and created again.
func (c *Checker) Objects(at time.Duration, runtime, module string, objects map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(runtime)
	if c.objectsSeen[runtime] == nil {
		c.objectsSeen[runtime] = map[string]map[string]string{}
	}
	for o := range objects {
		_, asked := s.asked[module]
		c.check(at, Meant, asked, "%s has %s of module %s, for which nobody ever asked", runtime, o, module)
	}
	for o, uid := range c.objectsSeen[runtime][module] {
		when, byUser := s.deleted[o]
		may := s.mayLack(at, module) || byUser && at-when < excuse
		now, still := objects[o]
		c.check(at, Kept, may || still, "%s has no %s of module %s any more, and nobody asked for that", runtime, o,
			module)
		c.check(at, Kept, may || !still || now == uid,
			"%s has another %s of module %s: it was deleted and created again, and nobody asked for that", runtime, o,
			module)
	}
	c.objectsSeen[runtime][module] = objects
}

// Listed judges all Kymas of the control plane.
func (c *Checker) Listed(at time.Duration, kymas []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.kymas {
		c.check(at, Kept, slices.Contains(kymas, id) || c.of(id).mayGo(at, c.staged),
			"the control plane has no Kyma %s any more, and nobody deleted it", id)
	}
	c.kymas = kymas
}
