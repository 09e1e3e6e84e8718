package objects

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// followSeed sets the spec of the runtime's Kyma to the seed of a bundle that the control plane resolved before the
// runtime's first report. If the Kyma in the control plane changed since the agent created the runtime's Kyma, the
// first report would otherwise request other modules than the bundle installs. A spec that another client wrote stays.
// seeded is the generation after the last such change, or 0.
func followSeed(kyma *v1beta2.Kyma, b *bundle.Bundle, seeded int64) {
	// managedFields do not show that a client removed a module, but the generation does.
	unchanged := kyma.Generation == 1 || kyma.Generation == seeded
	if b.Statement.Predicate.KymaGeneration != 0 || !unchanged || !isOwnSpec(kyma.ManagedFields) {
		return
	}
	next := newKyma(b.State.Kyma.Spec, nil, nil)
	if equality.Semantic.DeepEqual(kyma.Spec, next.Spec) {
		return
	}
	kyma.Spec = next.Spec
	if pins := next.Annotations[v1beta2.AnnotationPinnedVersions]; pins != "" {
		kyma.Annotations = with(kyma.Annotations, map[string]string{v1beta2.AnnotationPinnedVersions: pins})
	}
}

// isOwnSpec reports whether only the agent wrote the spec of an object, from managedFields.
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
