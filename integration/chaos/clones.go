package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// copyOf returns the checker's name of a runtime's copy.
func copyOf(runtime string) string { return "copy-of-" + runtime }

// clone starts a copy of a runtime from its snapshot. The admin of the copy removes all modules there. end waits until
// the publisher has detected the copy. Then it follows the documented procedure: stop the copy, and enroll the original
// with another key.
func (s *stage) clone(ctx context.Context, id string) (end func() error, err error) {
	s.checker.Cloned(id)
	duplicate, err := s.reals[id].Copy(ctx, s.snapshot(id), copyOf(id))
	if err != nil {
		s.checker.Separated(s.since(), id)
		return nil, err
	}
	s.mu.Lock()
	s.copies[id] = duplicate
	s.mu.Unlock()
	s.insist(ctx, "remove all modules in "+copyOf(id), func() error {
		return duplicate.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = nil })
	})
	ctx = context.WithoutCancel(ctx)
	return func() error {
		s.insist(ctx, "detect the copy of "+id, func() error { return s.isQuarantined(ctx, id, true) })
		s.mu.Lock()
		delete(s.copies, id)
		s.mu.Unlock()
		s.checker.Separating(id)
		if err := duplicate.Discard(); err != nil {
			s.story.Add("stop %s: %v", copyOf(id), err)
		}
		s.insist(ctx, "give "+id+" another key", func() error { return s.replaceKey(ctx, id) })
		s.insist(ctx, "publish to "+id+" again", func() error { return s.isQuarantined(ctx, id, false) })
		s.checker.Separated(s.since(), id)
		// The former snapshot contains the former key.
		s.insist(ctx, "take a snapshot of "+id, func() error { return s.takeSnapshot(id) })
		return nil
	}, nil
}

func (s *stage) replaceKey(ctx context.Context, id string) error {
	s.once.Lock() // enroll reads the key folder
	defer s.once.Unlock()
	r := s.reals[id]
	if err := r.DeleteKey(ctx); err != nil {
		return err
	}
	return r.Enroll(ctx)
}

// isQuarantined returns an error unless the runtime's status reports a copy, or reports none.
func (s *stage) isQuarantined(ctx context.Context, id string, want bool) error {
	kyma, err := s.reals[id].Record(ctx)
	if err != nil {
		return err
	}
	if r := recordOf(kyma); r.Quarantined != want {
		return fmt.Errorf("the status of Kyma %s has quarantine %t: %+v", id, r.Quarantined, kyma.Status.Runtime.Agent)
	}
	return nil
}

// quarantined reports whether the publisher has detected two agents with the runtime's key and publishes nothing.
func quarantined(status *v1beta2.RuntimeStatus) bool {
	return status.Agent != nil && status.Agent.Clone != "" && status.Reasons != nil &&
		status.Reasons.Publish == v1beta2.Reason(reason.CloneDetected)
}

// quarantineGrace is the time in which a push of before the quarantine can still reach the registry.
const quarantineGrace = twoLeaders + 10*time.Second

// Cloned announces that a second agent starts in a copy of a runtime's cluster. Until Separated, the checker compares
// the reports of each agent only with each other. The copy must keep its modules, as the original must.
func (c *Checker) Cloned(runtime string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.runtimes, copyOf(runtime))
	delete(c.restoring, copyOf(runtime))
	delete(c.objectsSeen, copyOf(runtime))
	original, twin := c.of(runtime), c.of(copyOf(runtime))
	original.cloned = true
	twin.signed, twin.removed, twin.cloned = original.signed, original.removed, true
	twin.asked[c.staged], twin.wants[c.staged] = 0, true
	for module := range original.asked {
		twin.asked[module] = original.asked[module]
	}
}

// Separating announces that the copy stops and that an operator gives the original another key.
func (c *Checker) Separating(runtime string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(runtime).quarantinedSince, c.of(runtime).rekeyed = 0, true
	c.restoring[copyOf(runtime)] = 1 // the cluster of the copy is emptied
}

// Separated announces that only one agent has the runtime's key.
func (c *Checker) Separated(at time.Duration, runtime string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(runtime)
	s.cloned, s.rekeyed, s.separated = false, false, at
}

// isCloned reports whether reports of a copy can still be recorded.
func (s *seen) isCloned(at time.Duration) bool {
	return s.cloned || s.separated > 0 && at-s.separated < settleTime
}

// checkQuarantine checks that the publisher publishes nothing once it has reported two agents with one key.
func (c *Checker) checkQuarantine(at time.Duration, s *seen, p Push) {
	if s.quarantinedSince == 0 || at-s.quarantinedSince < quarantineGrace || s.pushed == nil {
		return
	}
	c.check(at, Cloned, p.Digest == s.pushed.Digest,
		"bundle %d was pushed for %s, although two agents have its key since %s", p.Sequence, p.Runtime,
		s.quarantinedSince.Round(time.Second))
}

// checkCloneRequest checks that the recorded request of a cloned runtime is not the request of the copy, whose admin
// removed all modules.
func (c *Checker) checkCloneRequest(at time.Duration, s *seen, r Record) {
	if !s.cloned {
		return
	}
	if r.Quarantined && !s.rekeyed && s.quarantinedSince == 0 {
		s.quarantinedSince = at
	}
	if r.Requests != nil {
		c.check(at, Cloned, slices.Contains(r.Requests, c.staged),
			"the control plane records the request of the copy of %s: %v", r.Runtime, r.Requests)
	}
}

func (s *stage) discardCopies() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var problems []error
	for _, duplicate := range s.copies {
		problems = append(problems, duplicate.Discard())
	}
	clear(s.copies)
	return errors.Join(problems...)
}
