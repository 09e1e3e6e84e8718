package chaos

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// suspend suspends publishing to a runtime or resumes it, as `kcp-publisher suspend` and `resume` do.
func (s *stage) suspend(ctx context.Context, id string, suspended bool) error {
	s.once.Lock() // a restore of the control plane would undo the suspension
	defer s.once.Unlock()
	kyma := &v1beta2.Kyma{}
	if err := s.fleet.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: id}, kyma); err != nil {
		return err
	}
	before := kyma.DeepCopy()
	if suspended {
		metav1.SetMetaDataLabel(&kyma.ObjectMeta, v1beta2.LabelSkipReconciliation, v1beta2.True)
	} else {
		s.checker.Resumed(id)
		delete(kyma.Labels, v1beta2.LabelSkipReconciliation)
	}
	if err := s.fleet.Control.Patch(ctx, kyma, client.MergeFrom(before)); err != nil {
		return err
	}
	if suspended {
		s.checker.Suspended(s.since(), id)
	}
	return nil
}

// revokeKey revokes the key of a runtime's agent. Until renewKey, the runtime gets no bundle.
func (s *stage) revokeKey(ctx context.Context, id string) error {
	s.once.Lock() // a restore of the control plane would undo the revocation
	defer s.once.Unlock()
	key, err := s.recordedKey(ctx, id)
	if err != nil {
		return err
	}
	if key == "" {
		return fmt.Errorf("the status of Kyma %s has no key", id)
	}
	if output, err := s.fleet.Ask(ctx, "revoke", id, "--yes"); err != nil {
		return fmt.Errorf("revoke %s: %w\n%s", id, err, output)
	}
	s.checker.KeyRevoked(s.since(), id, key)
	return nil
}

// renewKey gives a runtime a new key, and replaces the runtime's snapshot, which contains the revoked key.
func (s *stage) renewKey(ctx context.Context, id string) error {
	s.checker.KeyDeleted(s.since(), id)
	s.enrollAgain(ctx, id, func() {
		s.insist(ctx, "give "+id+" another key", func() error { return s.replaceKey(ctx, id) })
	})
	if s.hasSnapshots() {
		return s.takeSnapshot(id)
	}
	return nil
}
