package objects

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// updateSeededKyma updates the spec of the runtime's Kyma from a bundle that was created before the runtime's first
// report. It does nothing for later bundles, or if another client wrote the spec. seededGeneration is the generation
// after the last such update, or 0.
//
// The control plane's Kyma can change after the agent created the runtime's Kyma. Without this update, the modules
// requested in the first report would differ from the modules that the bundle installs.
func updateSeededKyma(kyma *v1beta2.Kyma, b *bundle.Bundle, seededGeneration int64) {
	// The generation shows changes that managedFields do not show, such as the removal of a module by a client.
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

// isOwnSpec reports whether the agent is the only field manager of the spec of an object, according to managedFields.
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
		case err != nil, fields.Spec != nil && entry.Manager != FieldOwner:
			return false
		case fields.Spec != nil:
			own = true
		}
	}
	return own
}
