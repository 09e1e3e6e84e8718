package objects

import (
	"maps"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// newKyma returns the Kyma to create in the runtime. It moves the pinned versions of modules from the spec to an
// annotation.
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
func (m Memory) restoredKyma(labels, annotations map[string]string) *v1beta2.Kyma {
	kyma := newKyma(v1beta2.KymaSpec{}, labels, annotations)
	kyma.Spec = *m.Kyma.DeepCopy()
	if m.Pins != "" {
		kyma.Annotations = mergeEntries(kyma.Annotations, map[string]string{v1beta2.AnnotationPinnedVersions: m.Pins})
	}
	return kyma
}
