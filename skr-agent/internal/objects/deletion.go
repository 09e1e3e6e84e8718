package objects

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// deleteAll removes all objects of a Kyma that was deleted in the control plane: first modules, then sealed Secrets
// and the catalog, and finally the runtime's Kyma.
func (s *Syncer) deleteAll(ctx context.Context, sealed *bundle.Sealed) {
	var manifests v1beta2.ManifestList
	s.attempts.try("Manifest", allObjects, "", func() error { return s.list(ctx, &manifests, "Manifests") })
	for i := range manifests.Items {
		m := &manifests.Items[i]
		s.attempts.try("Manifest", m.Name, "", func() error { return s.delete(ctx, m, "Manifest") })
	}
	if len(manifests.Items) > 0 || s.attempts.hasFailures() {
		return
	}
	s.attempts.try("Secret", allObjects, "", func() error { return s.Secrets.Clear(ctx, sealed) })
	s.syncCatalog(ctx, bundle.Catalog{})
	if !s.attempts.hasFailures() {
		s.attempts.try("Kyma", v1beta2.RuntimeKymaName, "", func() error { return s.deleteKyma(ctx) })
	}
}

func (s *Syncer) deleteKyma(ctx context.Context) error {
	kyma := &v1beta2.Kyma{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1beta2.RuntimeKymaName}, kyma)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read Kyma %s/%s: %w", namespace, v1beta2.RuntimeKymaName, err)
	}
	return s.delete(ctx, kyma, "Kyma")
}

// markRemoval records on the Manifest that a bundle requests its deletion, and whether the module becomes unmanaged.
// Without this record, the agent keeps the module's objects when the Manifest is deleted.
func (s *Syncer) markRemoval(ctx context.Context, m *v1beta2.Manifest, unmanaged bool) error {
	r := s.Records.Read(m)
	// Once the deletion of an unmanaged module's Manifest has begun, the agent is already releasing the objects, so a
	// later bundle cannot change it to a removal.
	if r.Removal == m.UID && (r.Unmanaged == unmanaged || r.Unmanaged && !m.DeletionTimestamp.IsZero()) {
		return nil
	}
	if err := s.Restorer.RecordRemoval(ctx, m); err != nil {
		return err
	}
	err := s.updateRecord(ctx, m, func(r *record.Record) { r.Removal, r.Unmanaged = m.UID, unmanaged })
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("mark Manifest %s/%s for removal: %w", m.Namespace, m.Name, err)
	}
	return nil
}

// clearRemoval removes the entry of markRemoval from the Manifest's record, because a bundle requests the module again.
func (s *Syncer) clearRemoval(ctx context.Context, m *v1beta2.Manifest) error {
	if err := s.Restorer.ClearRemoval(ctx, m); err != nil {
		return err
	}
	if err := s.updateRecord(ctx, m, func(r *record.Record) { r.Removal, r.Unmanaged = "", false }); err != nil {
		return fmt.Errorf("record the end of the removal of Manifest %s/%s: %w", m.Namespace, m.Name, err)
	}
	return nil
}

// updateRecord changes the signed record in an annotation of a Manifest.
func (s *Syncer) updateRecord(ctx context.Context, m *v1beta2.Manifest, change func(*record.Record)) error {
	return s.Records.Update(ctx, s.Client, s.Uncached, m, change, client.FieldOwner(FieldOwner))
}
