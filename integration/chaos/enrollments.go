package chaos

import (
	"context"
	"fmt"
)

// enrollAgain replaces a runtime's key and waits until the control plane has recorded the new key. Until then, no step
// rotates the token secret, because a second rotation would invalidate the enrollment token.
func (s *stage) enrollAgain(ctx context.Context, id string, replace func()) {
	s.setEnrolling(id, true)
	defer s.setEnrolling(id, false)
	var former string
	s.insist(ctx, "read the key of "+id, func() (err error) {
		former, err = s.recordedKey(ctx, id)
		return err
	})
	replace()
	// Other faults can stop the publishers, the registry or the control plane for most of retryTimeout.
	s.insistFor(ctx, 3*retryTimeout, "record the new key of "+id, func() error {
		key, err := s.recordedKey(ctx, id)
		if err == nil && (key == "" || key == former) {
			err = fmt.Errorf("the status of Kyma %s has key %q", id, key)
		}
		return err
	})
}

func (s *stage) setEnrolling(id string, enrolling bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enrolling[id] = enrolling
}

// recordedKey returns the thumbprint of the runtime's key in the control plane.
func (s *stage) recordedKey(ctx context.Context, id string) (string, error) {
	kyma, err := s.reals[id].Record(ctx)
	if err != nil {
		return "", err
	}
	return recordOf(kyma).Key, nil
}
