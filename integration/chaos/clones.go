package chaos

import (
	"context"
	"errors"
	"fmt"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// clone starts a copy of a runtime from its snapshot. The copy's admin removes all modules in the copy. The function
// end waits until the publisher has detected the copy, and then follows the documented procedure: it stops the copy,
// and enrolls the original runtime with a new key.
func (s *stage) clone(ctx context.Context, id string) (end func() error, err error) {
	s.checker.Cloned(s.since(), id)
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
		// Other faults can stop the publishers, the registry or the control plane for most of retryTimeout.
		s.insistFor(ctx, 3*retryTimeout, "detect the copy of "+id, func() error { return s.isQuarantined(ctx, id, true) })
		s.mu.Lock()
		delete(s.copies, id)
		s.mu.Unlock()
		s.checker.Separating(id)
		if err := duplicate.Discard(); err != nil {
			s.story.Add("stop %s: %v", copyOf(id), err)
		}
		s.enrollAgain(ctx, id, func() {
			s.insist(ctx, "give "+id+" another key", func() error { return s.replaceKey(ctx, id) })
		})
		s.insist(ctx, "publish to "+id+" again", func() error { return s.isQuarantined(ctx, id, false) })
		s.checker.Separated(s.since(), id)
		// Replace the old snapshot, which contains the former key.
		s.insist(ctx, "take a snapshot of "+id, func() error { return s.takeSnapshot(id) })
		return nil
	}, nil
}

func (s *stage) replaceKey(ctx context.Context, id string) error {
	s.once.Lock() // enroll reads the key folder, which other steps change
	defer s.once.Unlock()
	r := s.reals[id]
	if err := r.DeleteKey(ctx); err != nil {
		return err
	}
	return r.Enroll(ctx)
}

// isQuarantined returns an error unless the runtime's status matches want. If want is true, the status must report a
// copy. If want is false, the status must not report a copy.
func (s *stage) isQuarantined(ctx context.Context, id string, want bool) error {
	kyma, err := s.reals[id].Record(ctx)
	if err != nil {
		return err
	}
	if r := recordOf(kyma); r.Quarantined != want {
		return fmt.Errorf("Kyma %s: quarantined is %t, expected %t: the reported agent is %+v", id, r.Quarantined, want,
			kyma.Status.Runtime.Agent)
	}
	return nil
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
