package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// syncKyma creates the runtime's Kyma. Before the runtime's first report, the agent also updates the spec from the
// bundle. After that, the spec belongs to the runtime's admin, and the agent updates only labels and annotations.
func (s *Syncer) syncKyma(ctx context.Context, b *bundle.Bundle) error {
	kyma, seed := &v1beta2.Kyma{}, b.State.Kyma
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1beta2.RuntimeKymaName}, kyma)
	if apierrors.IsNotFound(err) {
		if err := s.Client.Create(ctx, newKyma(seed.Spec, seed.Labels, seed.Annotations),
			client.FieldOwner(fieldOwner)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create Kyma %s/%s: %w", namespace, v1beta2.RuntimeKymaName, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read Kyma %s/%s: %w", namespace, v1beta2.RuntimeKymaName, err)
	}
	before := kyma.DeepCopy()
	keepMetadata(kyma, seed.Labels, seed.Annotations)
	updateSeededKyma(kyma, b, s.seededGeneration)
	if err := s.patch(ctx, before, kyma, "Kyma"); err != nil {
		return err
	}
	if kyma.Generation != before.Generation {
		s.seededGeneration = kyma.Generation
	}
	return nil
}

// newKyma returns the Kyma to create in the runtime. It moves pinned module versions from the spec to an annotation.
func newKyma(spec v1beta2.KymaSpec, labels, annotations map[string]string) *v1beta2.Kyma {
	kyma := &v1beta2.Kyma{}
	kyma.Namespace, kyma.Name = namespace, v1beta2.RuntimeKymaName
	kyma.Labels, kyma.Annotations = maps.Clone(labels), maps.Clone(annotations)
	var pins string
	if kyma.Spec, pins = spec.Unpinned(); pins != "" {
		kyma.Annotations = mergeEntries(kyma.Annotations, map[string]string{v1beta2.AnnotationPinnedVersions: pins})
	}
	return kyma
}

// restoredKyma returns the runtime's Kyma with the spec and pinned versions from the memory.
func (m agentMemory) restoredKyma(labels, annotations map[string]string) *v1beta2.Kyma {
	kyma := newKyma(v1beta2.KymaSpec{}, labels, annotations)
	kyma.Spec = *m.Kyma.DeepCopy()
	if m.Pins != "" {
		kyma.Annotations = mergeEntries(kyma.Annotations, map[string]string{v1beta2.AnnotationPinnedVersions: m.Pins})
	}
	return kyma
}

// updateSeededKyma updates the runtime Kyma's spec from a bundle that was created before the runtime's first report. It
// does nothing for later bundles, or if another client wrote the spec. seededGeneration is the generation after the
// last such update, or 0.
//
// The control plane's Kyma can change after the agent created the runtime's Kyma. Without this update, the modules that
// the first report requests would differ from the modules that the bundle installs.
func updateSeededKyma(kyma *v1beta2.Kyma, b *bundle.Bundle, seededGeneration int64) {
	// The generation shows changes that managedFields do not show, such as a module that a client removed.
	unchanged := kyma.Generation == 1 || kyma.Generation == seededGeneration
	if b.Statement.Predicate.KymaGeneration != 0 || !unchanged || !isOwnSpec(kyma.ManagedFields) {
		return
	}
	next := newKyma(b.State.Kyma.Spec, nil, nil)
	if equality.Semantic.DeepEqual(kyma.Spec, next.Spec) {
		return
	}
	kyma.Spec = next.Spec
	if pins := next.Annotations[v1beta2.AnnotationPinnedVersions]; pins != "" {
		kyma.Annotations = mergeEntries(kyma.Annotations, map[string]string{v1beta2.AnnotationPinnedVersions: pins})
	}
}

// isOwnSpec reports whether the agent is the only field manager for an object's spec, according to managedFields.
func isOwnSpec(entries []metav1.ManagedFieldsEntry) bool {
	own := false
	for _, entry := range entries {
		if entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec json.RawMessage `json:"f:spec"`
		}
		switch err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); {
		case err != nil, fields.Spec != nil && entry.Manager != fieldOwner:
			return false
		case fields.Spec != nil:
			own = true
		}
	}
	return own
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
